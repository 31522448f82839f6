/* SPDX-License-Identifier: Apache-2.0 */
/* Attention of the row `host` (host_attention.c); device_kernels.h documents the
 * functions. */
#ifndef TRYST_PIPELINE_HOST_HOST_ATTENTION_H
#define TRYST_PIPELINE_HOST_HOST_ATTENTION_H

#include "pipeline/device/device_kernels.h"

void host_attention_forward(const struct device_lane *lane,
                            const struct device_attention *attention);
void host_attention_backward(const struct device_lane *lane,
                             const struct device_attention *attention);

#endif
