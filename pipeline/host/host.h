/* SPDX-License-Identifier: Apache-2.0 */
/* The row of kernels for stages on processors. */
#ifndef TRYST_PIPELINE_HOST_HOST_H
#define TRYST_PIPELINE_HOST_HOST_H

#include "pipeline/device/device_kernels.h"

extern const struct device_kernels device_kernels_host;

/** The only precision of the row: F32, or F64 if compiled with PIPELINE_REAL_F64 (a
 *  test). */
extern const tryst_precision host_precision;

#endif
