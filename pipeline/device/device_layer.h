/* SPDX-License-Identifier: Apache-2.0 */
/* A layer of a device stage: the layer of layer.h (same tensors, same names, same flops) computed
 * by device kernels.
 *
 * Backward is always split, as there: backward_input leaves in `kept` what backward_weight needs.
 * Layers hold no state; all they touch comes in a device_pass. */
#ifndef PIPELINE_DEVICE_LAYER_H
#define PIPELINE_DEVICE_LAYER_H

#include "device_kernels.h"

#include "pipeline/host/layer.h"

/* Every array in a stage's memory, and in `saved` and `kept`, begins at a multiple of this. */
#define DEVICE_ALIGN_BYTES 256u

/* Rows whose logits are in memory at one time. */
enum { DEVICE_CHUNK_ROWS = 1024 };

/* Hands out aligned runs of one buffer; with a NULL base it only counts. */
typedef struct device_carver {
    char *base;
    uint64_t used;
    uint64_t t_bytes, wide_bytes; /* of an element */
} device_carver;

static inline uint64_t device_aligned(uint64_t bytes)
{
    return (bytes + DEVICE_ALIGN_BYTES - 1) / DEVICE_ALIGN_BYTES * DEVICE_ALIGN_BYTES;
}

static inline device_carver device_carver_at(void *base, tryst_precision precision)
{
    return (device_carver){
        .base = base,
        .t_bytes = device_dtype_bytes(device_precision_dtype(precision)),
        .wide_bytes = device_dtype_bytes(device_precision_wide(precision))};
}

static inline void *device_carve(device_carver *carver, uint64_t bytes)
{
    void *run = carver->base ? carver->base + carver->used : NULL;
    carver->used += device_aligned(bytes);
    return run;
}

static inline void *device_carve_t(device_carver *carver, uint64_t count)
{
    return device_carve(carver, count * carver->t_bytes);
}

static inline void *device_carve_wide(device_carver *carver, uint64_t count)
{
    return device_carve(carver, count * carver->wide_bytes);
}

/* What one call of a layer works on. Pointers that a call does not need are NULL. */
typedef struct device_pass {
    const device_kernels *kernels;
    const device_lane *lane;
    const tryst_model *model;
    const void *weights[LAYER_TENSORS_MAX]; /* T */
    void *gradients[LAYER_TENSORS_MAX];     /* wide */
    const void *input; /* T [rows, hidden]; bytes for the embedding */
    const uint8_t *target;
    void *output; /* T [rows, hidden]; one double for the head; NULL: `saved` is all */
    void *saved;
    void *kept;
    void *scratch; /* undefined at the start of every call */
    const void *grad_output;
    void *grad_input;
} device_pass;

typedef struct device_layer_ops {
    uint64_t (*saved_bytes)(const tryst_model *model, tryst_precision precision);
    uint64_t (*kept_bytes)(const tryst_model *model, tryst_precision precision);
    uint64_t (*scratch_bytes)(const tryst_model *model, tryst_precision precision);
    void (*forward)(const device_pass *pass);
    void (*backward_input)(const device_pass *pass);
    void (*backward_weight)(const device_pass *pass);
} device_layer_ops;

/* The registry: one row per kind of layer. */
extern const device_layer_ops device_layer_embedding; /* device_ends.c */
extern const device_layer_ops device_layer_head;      /* device_ends.c */
extern const device_layer_ops device_layer_gpt;       /* device_gpt.c */
extern const device_layer_ops device_layer_mlp;       /* device_mlp.c */

static inline device_carver device_pass_carver(const device_pass *pass, void *base)
{
    return device_carver_at(base, pass->lane->session->precision);
}

/* ---- products as layers use them, in device_linear.c --------------------------------------- */

/* y [rows, out] = x · weightᵀ + bias + add; bias and add may be NULL. */
void device_linear_forward(const device_pass *pass, int32_t in, int32_t out,
                           const void *x, const void *weight, const void *bias,
                           const void *add, void *y);
/* The same through a GELU, whose input is left in `before`. */
void device_linear_gelu_forward(const device_pass *pass, int32_t in, int32_t out,
                                const void *x, const void *weight, const void *bias,
                                void *before, void *y);
/* dx = dy · weight */
void device_linear_backward_input(const device_pass *pass, int32_t in, int32_t out,
                                  const void *dy, const void *weight, void *dx);
/* dbefore = (dy · weight) · gelu'(before) */
void device_linear_gelu_backward_input(const device_pass *pass, int32_t in, int32_t out,
                                       const void *dy, const void *weight, void *before,
                                       void *dbefore);
/* dweight += dyᵀ · x, dbias += column sums of dy (NULL: no bias) */
void device_linear_backward_weight(const device_pass *pass, int32_t in, int32_t out,
                                   const void *x, const void *dy, void *dweight,
                                   void *dbias);

#endif
