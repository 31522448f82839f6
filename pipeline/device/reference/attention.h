/* SPDX-License-Identifier: Apache-2.0 */
/* Attention of the reference row (attention.c); device_kernels.h documents the
 * functions. */
#ifndef TRYST_PIPELINE_DEVICE_REFERENCE_ATTENTION_H
#define TRYST_PIPELINE_DEVICE_REFERENCE_ATTENTION_H

#include "pipeline/device/device_kernels.h"

/** The widest head for which the reference has room on the stack. */
enum { REFERENCE_HEAD_WIDTH_MAX = 2048 };

void reference_attention_forward(const struct device_lane *lane,
                                 const struct device_attention *attention);
void reference_attention_backward(const struct device_lane *lane,
                                  const struct device_attention *attention);

#endif
