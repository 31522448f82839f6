/* SPDX-License-Identifier: Apache-2.0 */
/* The row of kernels for stages on processors. */
#ifndef TRYST_PIPELINE_HOST_HOST_H
#define TRYST_PIPELINE_HOST_HOST_H

#include "pipeline/device/device_kernels.h"

extern const struct device_kernels device_kernels_host;

/** The only precision of the row: F32; F64 in a test that compiles it so. */
extern const tryst_precision host_precision;

#endif
