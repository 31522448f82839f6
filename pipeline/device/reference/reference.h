/* SPDX-License-Identifier: Apache-2.0 */
/* The operations of the reference row; device_kernels.h says what each does. One file each, as
 * the CUDA kernel of the same name. Called through device_kernels_reference alone. */
#ifndef PIPELINE_DEVICE_REFERENCE_H
#define PIPELINE_DEVICE_REFERENCE_H

#include "pipeline/device/device_kernels.h"

void reference_product(const device_lane *lane, const device_product *product);
void reference_column_sum(const device_lane *lane, int32_t rows, int32_t columns,
                          const void *dy, void *dbias);
void reference_embedding_forward(const device_lane *lane, int32_t rows, int32_t seq,
                                 int32_t hidden, const uint8_t *bytes, const void *token,
                                 const void *position, void *y);
void reference_embedding_backward(const device_lane *lane, int32_t rows, int32_t seq,
                                  int32_t hidden, int32_t vocabulary,
                                  const uint8_t *bytes, const void *dy, void *dtoken,
                                  void *dposition);
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
void reference_attention_forward(const device_lane *lane,
                                 const device_attention *attention);
void reference_attention_backward(const device_lane *lane,
                                  const device_attention *attention);
void reference_gelu_backward(const device_lane *lane, uint64_t count, const void *x,
                             const void *dy, void *dx);
void reference_add(const device_lane *lane, uint64_t count, const void *a, const void *b,
                   void *y);
void reference_duplicate(const device_lane *lane, uint64_t count, const void *x, void *y);
void reference_cross_entropy_forward(const device_lane *lane, int32_t rows,
                                     int32_t classes, const void *logits,
                                     const uint8_t *target, void *losses, void *lse);
void reference_cross_entropy_backward(const device_lane *lane, int32_t rows,
                                      int32_t classes, double weight, const void *logits,
                                      const uint8_t *target, const void *lse,
                                      void *dlogits);
void reference_loss_mean(const device_lane *lane, int32_t rows, const void *losses,
                         double *mean);
void reference_update(const device_lane *lane, const device_update *update);
void reference_round(const device_lane *lane, uint64_t count, const void *wide, void *y);

/* GELU in its tanh form (Hendrycks and Gimpel, 2016), and its derivative. */
double reference_gelu(double x);
double reference_gelu_slope(double x);

/* The widest head that the reference's rows on the stack hold. */
enum { REFERENCE_HEAD_WIDTH_MAX = 2048 };

#endif
