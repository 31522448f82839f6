/* SPDX-License-Identifier: Apache-2.0 */
/* GELU in its tanh form (Hendrycks and Gimpel, 2016), and its derivative, of the reference row (gelu.c); device_kernels.h says what each does. */
#ifndef PIPELINE_DEVICE_REFERENCE_GELU_H
#define PIPELINE_DEVICE_REFERENCE_GELU_H

#include "pipeline/device/device_kernels.h"

void reference_gelu_backward(const device_lane *lane, uint64_t count, const void *x,
                             const void *dy, void *dx);
double reference_gelu(double x);
double reference_gelu_slope(double x);

#endif
