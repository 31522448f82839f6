/* SPDX-License-Identifier: Apache-2.0 */
/* Attention of the reference row (attention.c); device_kernels.h documents the
 * functions. */
#ifndef TRYST_PIPELINE_DEVICE_REFERENCE_ATTENTION_H
#define TRYST_PIPELINE_DEVICE_REFERENCE_ATTENTION_H

#include "pipeline/device/device_kernels.h"

/** Limit of a head's width: the reference has two rows of a head on the stack. */
enum { REFERENCE_HEAD_WIDTH_MAX = 2048 };

void reference_attention_forward(const struct device_lane *lane,
                                 const struct device_attention *attention);
void reference_attention_backward(const struct device_lane *lane,
                                  const struct device_attention *attention);

#endif
