/* SPDX-License-Identifier: Apache-2.0 */
/* A layer: the piece from which host stages are built. A stage chains layers: the output of one
 * is the input of the next, and its backward runs them in reverse.
 *
 * Backward is always split. backward_input computes grad_input and leaves in `kept` what
 * backward_weight needs to add the weight gradients, so the whole and the split backward of a
 * stage run the same arithmetic in the same order per weight.
 *
 * Layers hold no state: all they touch comes in a layer_pass. */
#ifndef PIPELINE_LAYER_H
#define PIPELINE_LAYER_H

#include "real.h"

#include <tryst/stage.h>

enum {
    LAYER_TENSORS_MAX = 12,
    LAYER_NAME_MAX = 64 /* longest tensor name, with its terminator */
};

/* One parameter tensor of a layer, in the layer's order. */
typedef struct layer_tensor {
    const char *name;
    int32_t rank;
    uint64_t shape[2];
    /* Initial values: uniform in [-bound, bound) where bound > 0, else `constant`. */
    double bound;
    double constant;
} layer_tensor;

/* What one call of a layer works on. Pointers that a call does not need are NULL. */
typedef struct layer_pass {
    const tryst_model *model;
    const real *weights[LAYER_TENSORS_MAX]; /* of the version that the action names */
    real *gradients[LAYER_TENSORS_MAX];
    const void *input; /* real [rows, hidden]; bytes for the embedding */
    const uint8_t *target;
    void *output; /* real [rows, hidden]; one double for the head */
    real *saved;
    real *kept;
    real *scratch; /* undefined at the start of every call */
    const real *grad_output;
    real *grad_input;
} layer_pass;

typedef struct layer_ops {
    const char *prefix; /* of tensor names; "#" stands for the layer's index */
    /* Fills `tensors` (zeroed, LAYER_TENSORS_MAX of them), returns how many there are. */
    int32_t (*tensors)(const tryst_model *model, layer_tensor *tensors);
    /* Sizes in reals. */
    uint64_t (*saved_count)(const tryst_model *model);
    uint64_t (*kept_count)(const tryst_model *model);
    uint64_t (*scratch_count)(const tryst_model *model);
    void (*forward)(const layer_pass *pass);
    void (*backward_input)(const layer_pass *pass);
    void (*backward_weight)(const layer_pass *pass);
    double (*forward_flops)(const tryst_model *model);
    double (*backward_input_flops)(const tryst_model *model);
    double (*backward_weight_flops)(const tryst_model *model);
} layer_ops;

/* The registry: one row per kind of layer. */
extern const layer_ops layer_embedding; /* ends.c */
extern const layer_ops layer_head;      /* ends.c */
extern const layer_ops layer_gpt;       /* gpt.c */
extern const layer_ops layer_mlp;       /* mlp.c */

/* The layer at `index` of a resolved model: -1 is the embedding, `layers` the head. */
const layer_ops *layer_at(const tryst_model *model, int32_t index);

/* Elements of a tensor. */
static inline uint64_t layer_tensor_count(const layer_tensor *tensor)
{
    return tensor->shape[0] * (tensor->rank == 2 ? tensor->shape[1] : 1);
}

/* `tensor` of the layer at `index` as the public visits show it, without value and gradient.
 * Its name ("blocks.3.norm1.weight") is written to `name`. */
tryst_parameter layer_parameter(const layer_ops *ops, int32_t index,
                                const layer_tensor *tensor, char name[LAYER_NAME_MAX]);

/* Positions in a micro-batch: the rows of every activation matrix. */
static inline int32_t layer_rows(const tryst_model *model)
{
    return model->microbatch_size * model->seq;
}

/* Elements of an activation between two layers. */
static inline uint64_t layer_activation_count(const tryst_model *model)
{
    return (uint64_t)layer_rows(model) * (uint64_t)model->hidden;
}

/* A weight matrix [out, in], uniform in ±scale/√in. */
static inline layer_tensor layer_matrix(const char *name, int32_t out, int32_t in,
                                        double scale)
{
    return (layer_tensor){.name = name,
                          .rank = 2,
                          .shape = {(uint64_t)out, (uint64_t)in},
                          .bound = scale / sqrt((double)in)};
}

/* A vector [width] of one value. */
static inline layer_tensor layer_vector(const char *name, int32_t width, double constant)
{
    return (layer_tensor){
        .name = name, .rank = 1, .shape = {(uint64_t)width, 1}, .constant = constant};
}

#endif
