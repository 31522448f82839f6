/* SPDX-License-Identifier: Apache-2.0 */
/* The operations of the CUDA row. device_kernels.h documents those of the table
 * (cuda_row.c), which are called through the table only. cuda_product.c calls
 * cuda_bias_add and cuda_gelu_forward for the parts that cuBLASLt leaves out of a
 * product. */
#ifndef TRYST_PIPELINE_DEVICE_CUDA_CUDA_ROW_H
#define TRYST_PIPELINE_DEVICE_CUDA_CUDA_ROW_H

#include "pipeline/device/device_kernels.h"

/** Limit of a head's width: that of attention's tiles. */
enum { CUDA_HEAD_WIDTH_MAX = 256 };

void cuda_column_sum(const struct device_lane *lane, int32_t rows, int32_t columns,
                     const void *dy, void *dbias);
void cuda_embedding_forward(const struct device_lane *lane, int32_t rows, int32_t seq,
                            int32_t hidden, const uint8_t *bytes, const void *token,
                            const void *position, void *y);
void cuda_embedding_backward(const struct device_lane *lane, int32_t rows, int32_t seq,
                             int32_t hidden, int32_t vocabulary, const uint8_t *bytes,
                             const void *dy, void *dtoken, void *dposition);
void cuda_norm_forward(const struct device_lane *lane, int32_t rows, int32_t width,
                       const void *x, const void *gain, const void *bias, void *y,
                       void *mean, void *rstd);
void cuda_norm_backward_input(const struct device_lane *lane, int32_t rows, int32_t width,
                              const void *x, const void *gain, const void *mean,
                              const void *rstd, const void *dy, const void *residual,
                              void *dx);
void cuda_norm_backward_weight(const struct device_lane *lane, int32_t rows,
                               int32_t width, const void *x, const void *mean,
                               const void *rstd, const void *dy, void *dgain,
                               void *dbias);
void cuda_attention_forward(const struct device_lane *lane,
                            const struct device_attention *attention);
void cuda_attention_backward(const struct device_lane *lane,
                             const struct device_attention *attention);
/** y [rows, columns] += bias [columns] */
void cuda_bias_add(const struct device_lane *lane, int32_t rows, int32_t columns,
                   const void *bias, void *y);
/** y = gelu(x) */
void cuda_gelu_forward(const struct device_lane *lane, uint64_t count, const void *x,
                       void *y);
void cuda_gelu_backward(const struct device_lane *lane, uint64_t count, const void *x,
                        const void *dy, void *dx);
void cuda_add(const struct device_lane *lane, uint64_t count, const void *a,
              const void *b, void *y);
void cuda_duplicate(const struct device_lane *lane, uint64_t count, const void *x,
                    void *y);
void cuda_cross_entropy_forward(const struct device_lane *lane, int32_t rows,
                                int32_t classes, const void *logits,
                                const uint8_t *target, void *losses, void *lse);
void cuda_cross_entropy_backward(const struct device_lane *lane, int32_t rows,
                                 int32_t classes, double weight, const void *logits,
                                 const uint8_t *target, const void *lse, void *dlogits);
void cuda_loss_mean(const struct device_lane *lane, int32_t rows, const void *losses,
                    double *mean);
void cuda_update(const struct device_lane *lane, const struct device_update *update);
void cuda_predict(const struct device_lane *lane,
                  const struct device_prediction *prediction);
void cuda_round(const struct device_lane *lane, uint64_t count, const void *wide,
                void *y);

/** Record a failed launch in the session; `what` names the kernel. Call this after every
 *  launch. */
void cuda_launched(const struct device_lane *lane, const char *what);

#endif
