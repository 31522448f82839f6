/* SPDX-License-Identifier: Apache-2.0 */
/* Embedding, of the reference row (embedding.c); device_kernels.h says what each does. */
#ifndef PIPELINE_DEVICE_REFERENCE_EMBEDDING_H
#define PIPELINE_DEVICE_REFERENCE_EMBEDDING_H

#include "pipeline/device/device_kernels.h"

void reference_embedding_forward(const device_lane *lane, int32_t rows, int32_t seq,
                                 int32_t hidden, const uint8_t *bytes, const void *token,
                                 const void *position, void *y);
void reference_embedding_backward(const device_lane *lane, int32_t rows, int32_t seq,
                                  int32_t hidden, int32_t vocabulary,
                                  const uint8_t *bytes, const void *dy, void *dtoken,
                                  void *dposition);

#endif
