/* SPDX-License-Identifier: Apache-2.0 */
/* Layers, computed by device kernels. A stage is a chain of layers: the output of one is
 * the input of the next, and the stage's backward runs the layers in reverse.
 *
 * The backward of a layer is always split. backward_input computes grad_input, and stores
 * in arrays of the part LAYER_KEPT what backward_weight needs for the weight gradients.
 * So the whole and the split backward of a stage run the same arithmetic, for each weight
 * in the same order.
 *
 * Layers hold no state: they list their tensors and their arrays, and get all data in a
 * device_pass. */
#ifndef TRYST_PIPELINE_DEVICE_DEVICE_LAYER_H
#define TRYST_PIPELINE_DEVICE_DEVICE_LAYER_H

#include "device_kernels.h"

#include <math.h>

/** The offset of every array in a stage's memory, in `saved` and in `kept` is a multiple
 *  of this. */
#define DEVICE_ALIGN_BYTES 256u

/** Limit of the rows of logits in memory at one time, where logits are not kept. */
enum { DEVICE_CHUNK_ROWS = 1024 };

enum {
    LAYER_TENSORS_MAX = 12,
    LAYER_ARRAYS_MAX = 20,
    LAYER_NAME_MAX = 64 /**< longest tensor name, with its terminator */
};

/** One parameter tensor of a layer. */
struct layer_tensor {
    const char *name;
    int32_t rank; /**< 1 or 2 dimensions */
    uint64_t shape[2];
    /** Initial values: uniform in [-bound, bound) if bound > 0, else `constant`. */
    double bound;
    double constant;
};

/** The memory of an array: forward fills `saved`, backward_input fills `kept`; the
 *  content of `scratch` is undefined at the start of every call. */
enum layer_part { LAYER_SAVED, LAYER_KEPT, LAYER_SCRATCH, LAYER_PARTS };

struct layer_array {
    enum layer_part part;
    bool is_wide; /**< elements are wide; false: T */
    uint64_t count;
};

/** Lays out aligned runs in one buffer, which need not exist yet. */
struct device_carver {
    uint64_t used;
    uint64_t t_bytes, wide_bytes; /**< bytes of an element of T and of wide */
};

static inline uint64_t device_aligned(uint64_t bytes)
{
    return (bytes + DEVICE_ALIGN_BYTES - 1) / DEVICE_ALIGN_BYTES * DEVICE_ALIGN_BYTES;
}

static inline struct device_carver device_carver_of(tryst_precision precision)
{
    return (struct device_carver){
        .t_bytes = device_dtype_bytes(device_precision_dtype(precision)),
        .wide_bytes = device_dtype_bytes(device_precision_wide(precision))};
}

/** Reserve a run and return its offset. */
static inline uint64_t device_carve(struct device_carver *carver, uint64_t bytes)
{
    uint64_t offset = carver->used;
    carver->used += device_aligned(bytes);
    return offset;
}

static inline uint64_t device_carve_t(struct device_carver *carver, uint64_t count)
{
    return device_carve(carver, count * carver->t_bytes);
}

static inline uint64_t device_carve_wide(struct device_carver *carver, uint64_t count)
{
    return device_carve(carver, count * carver->wide_bytes);
}

/** Data of one call of a layer. Pointers that a call does not need are NULL. */
struct device_pass {
    const struct device_kernels *kernels;
    const struct device_lane *lane;
    const tryst_model *model;
    /** Forward leaves logits in `saved`; false: backward computes them again, in chunks
     *  of rows. */
    bool keeps_logits;
    const void *weights[LAYER_TENSORS_MAX]; /**< T */
    void *gradients[LAYER_TENSORS_MAX];     /**< wide */
    void *arrays[LAYER_ARRAYS_MAX];
    const void *input; /**< T [rows, hidden]; U8 [rows] for the embedding */
    const uint8_t *target;
    /** T [rows, hidden]; for the head one double, the loss; NULL: only `saved` is
     *  needed */
    void *output;
    const void *grad_output;
    void *grad_input;
};

/** Floating-point operations for one micro-batch. */
struct layer_flops {
    double forward, backward_input, backward_weight;
};

struct layer_ops {
    /** Prefix of tensor names; "#" is replaced by the layer's index. */
    const char *prefix;
    /** List the layer's tensors or arrays in a zeroed list of LAYER_TENSORS_MAX or
     *  LAYER_ARRAYS_MAX elements; return their number. */
    int32_t (*tensors)(const tryst_model *model, struct layer_tensor *tensors);
    int32_t (*arrays)(const tryst_model *model, bool keeps_logits,
                      struct layer_array *arrays);
    void (*forward)(const struct device_pass *pass);
    void (*backward_input)(const struct device_pass *pass);
    void (*backward_weight)(const struct device_pass *pass);
    struct layer_flops (*flops)(const tryst_model *model);
};

/** The registry of all kinds of layers. */
extern const struct layer_ops layer_embedding; /* device_ends.c */
extern const struct layer_ops layer_head;      /* device_ends.c */
extern const struct layer_ops layer_gpt;       /* device_gpt.c */
extern const struct layer_ops layer_mlp;       /* device_mlp.c */

/** Return the layer at `index` of a resolved model: -1 is the embedding, `layers` the
 *  head. */
const struct layer_ops *layer_at(const tryst_model *model, int32_t index);

/** Return the public description of `tensor` of the layer at `index`, with value and
 *  gradient NULL and dtype F32. Writes its name ("blocks.3.norm1.weight") to `name`. */
tryst_parameter layer_parameter(const struct layer_ops *ops, int32_t index,
                                const struct layer_tensor *tensor,
                                char name[LAYER_NAME_MAX]);

/** Return the number of elements of a tensor. */
static inline uint64_t layer_tensor_count(const struct layer_tensor *tensor)
{
    return tensor->shape[0] * (tensor->rank == 2 ? tensor->shape[1] : 1);
}

/** Return the number of positions in a micro-batch: the rows of every activation
 *  matrix. */
static inline int32_t layer_rows(const tryst_model *model)
{
    return model->microbatch_size * model->seq;
}

/** Return the number of elements of an activation between two layers. */
static inline uint64_t layer_activation_count(const tryst_model *model)
{
    return (uint64_t)layer_rows(model) * (uint64_t)model->hidden;
}

/** Describe a weight matrix [out, in], at first uniform in ±scale/√in. */
static inline struct layer_tensor layer_matrix(const char *name, int32_t out, int32_t in,
                                               double scale)
{
    return (struct layer_tensor){.name = name,
                                 .rank = 2,
                                 .shape = {(uint64_t)out, (uint64_t)in},
                                 .bound = scale / sqrt((double)in)};
}

/** Describe a vector [width] with all elements `constant` at first. */
static inline struct layer_tensor layer_vector(const char *name, int32_t width,
                                               double constant)
{
    return (struct layer_tensor){
        .name = name, .rank = 1, .shape = {(uint64_t)width, 1}, .constant = constant};
}

static inline struct layer_array layer_saved(uint64_t count)
{
    return (struct layer_array){.part = LAYER_SAVED, .count = count};
}

static inline struct layer_array layer_saved_wide(uint64_t count)
{
    return (struct layer_array){.part = LAYER_SAVED, .is_wide = true, .count = count};
}

static inline struct layer_array layer_kept(uint64_t count)
{
    return (struct layer_array){.part = LAYER_KEPT, .count = count};
}

static inline struct layer_array layer_scratch(uint64_t count)
{
    return (struct layer_array){.part = LAYER_SCRATCH, .count = count};
}

static inline struct layer_array layer_scratch_wide(uint64_t count)
{
    return (struct layer_array){.part = LAYER_SCRATCH, .is_wide = true, .count = count};
}

/* ---- products of layers ------------------------------------------------------------ */

/** y [rows, out] = x · weightᵀ + bias + add; bias and add may be NULL. If `before` is not
 *  NULL, it receives this sum, and y = gelu(before); `add` must be NULL then. */
void device_linear_forward(const struct device_pass *pass, int32_t in, int32_t out,
                           const void *x, const void *weight, const void *bias,
                           const void *add, void *before, void *y);
/** dx = dy · weight; if `before` is not NULL, multiplied by gelu'(before). */
void device_linear_backward_input(const struct device_pass *pass, int32_t in, int32_t out,
                                  const void *dy, const void *weight, void *before,
                                  void *dx);
/** dweight += dyᵀ · x; dbias += column sums of dy, unless dbias is NULL */
void device_linear_backward_weight(const struct device_pass *pass, int32_t in,
                                   int32_t out, const void *x, const void *dy,
                                   void *dweight, void *dbias);

#endif
