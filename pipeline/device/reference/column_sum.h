/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of columns, of the reference row (column_sum.c); device_kernels.h says what each does. */
#ifndef PIPELINE_DEVICE_REFERENCE_COLUMN_SUM_H
#define PIPELINE_DEVICE_REFERENCE_COLUMN_SUM_H

#include "pipeline/device/device_kernels.h"

void reference_column_sum(const device_lane *lane, int32_t rows, int32_t columns,
                          const void *dy, void *dbias);

#endif
