/* SPDX-License-Identifier: Apache-2.0 */
/* The row of kernels for stages on processors. */
#ifndef PIPELINE_HOST_H
#define PIPELINE_HOST_H

#include "pipeline/device/device_kernels.h"

extern const device_kernels device_kernels_host;

/* What it computes in, and nothing else: F32; F64 where a test compiles it so. */
extern const tryst_precision host_precision;

#endif
