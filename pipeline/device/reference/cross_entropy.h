/* SPDX-License-Identifier: Apache-2.0 */
/* Cross entropy, of the reference row (cross_entropy.c); device_kernels.h says what each does. */
#ifndef PIPELINE_DEVICE_REFERENCE_CROSS_ENTROPY_H
#define PIPELINE_DEVICE_REFERENCE_CROSS_ENTROPY_H

#include "pipeline/device/device_kernels.h"

void reference_cross_entropy_forward(const device_lane *lane, int32_t rows,
                                     int32_t classes, const void *logits,
                                     const uint8_t *target, void *losses, void *lse);
void reference_cross_entropy_backward(const device_lane *lane, int32_t rows,
                                      int32_t classes, double weight, const void *logits,
                                      const uint8_t *target, const void *lse,
                                      void *dlogits);
void reference_loss_mean(const device_lane *lane, int32_t rows, const void *losses,
                         double *mean);

#endif
