/* SPDX-License-Identifier: Apache-2.0 */
/* Layer norm, of the reference row (norm.c); device_kernels.h says what each does. */
#ifndef PIPELINE_DEVICE_REFERENCE_NORM_H
#define PIPELINE_DEVICE_REFERENCE_NORM_H

#include "pipeline/device/device_kernels.h"

void reference_norm_forward(const device_lane *lane, int32_t rows, int32_t width,
                            const void *x, const void *gain, const void *bias, void *y,
                            void *mean, void *rstd);
void reference_norm_backward_input(const device_lane *lane, int32_t rows, int32_t width,
                                   const void *x, const void *gain, const void *mean,
                                   const void *rstd, const void *dy, const void *residual,
                                   void *dx);
void reference_norm_backward_weight(const device_lane *lane, int32_t rows, int32_t width,
                                    const void *x, const void *mean, const void *rstd,
                                    const void *dy, void *dgain, void *dbias);

#endif
