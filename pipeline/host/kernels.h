/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic of the host stages besides matrix products, and matrix products as layers use
 * them. All matrices are row-major and dense; `rows` are positions, columns are features.
 * Gradients of weights are added to, everything else is overwritten. */
#ifndef PIPELINE_KERNELS_H
#define PIPELINE_KERNELS_H

#include "real.h"

/* y [rows, out] = x [rows, in] · weightᵀ [out, in] + bias [out] (may be NULL). */
void linear_forward(int rows, int in, int out, const real *x, const real *weight,
                    const real *bias, real *y);
/* dx = dy · weight */
void linear_backward_input(int rows, int in, int out, const real *dy, const real *weight,
                           real *dx);
/* dweight += dyᵀ · x, dbias += column sums of dy (NULL: no bias) */
void linear_backward_weight(int rows, int in, int out, const real *x, const real *dy,
                            real *dweight, real *dbias);

/* y = (x − mean) · rstd · gain + bias, row by row; mean and rstd are left for backward. */
void norm_forward(int rows, int width, const real *x, const real *gain, const real *bias,
                  real *y, real *mean, real *rstd);
/* dx = residual + the norm's input gradient; residual may be NULL (nothing) or dx itself. */
void norm_backward_input(int rows, int width, const real *x, const real *gain,
                         const real *mean, const real *rstd, const real *dy,
                         const real *residual, real *dx);
void norm_backward_weight(int rows, int width, const real *x, const real *mean,
                          const real *rstd, const real *dy, real *dgain, real *dbias);

/* GELU in its tanh form (Hendrycks and Gimpel, 2016). */
void gelu_forward(uint64_t count, const real *restrict x, real *restrict y);
/* dx = dy · gelu'(x); no two may overlap. */
void gelu_backward(uint64_t count, const real *restrict x, const real *restrict dy,
                   real *restrict dx);

/* In place: scores [seq, seq] to probabilities softmax(scale · scores), row i over columns
 * 0…i, zero behind. */
void softmax_causal_forward(int seq, real scale, real *scores);
/* In place: gradient of the probabilities to gradient of the unscaled scores. */
void softmax_causal_backward(int seq, real scale, const real *probabilities,
                             real *gradient);

/* In place: logits [rows, classes] to probabilities. Returns the mean of −log p(target), summed
 * in row order in fp64. */
double cross_entropy_forward(int rows, int classes, const uint8_t *target, real *logits);
/* dlogits = (probabilities − onehot(target)) / rows */
void cross_entropy_backward(int rows, int classes, const uint8_t *target,
                            const real *probabilities, real *dlogits);

/* y = a + b */
void real_add(uint64_t count, const real *a, const real *b, real *y);

#endif
