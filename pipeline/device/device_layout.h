/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of a device stage: in its one allocation, in an arena of parameters, in
 * `saved` and in `kept`. Plain arithmetic on a model, so a stage's need is known without
 * a device. */
#ifndef TRYST_PIPELINE_DEVICE_DEVICE_LAYOUT_H
#define TRYST_PIPELINE_DEVICE_DEVICE_LAYOUT_H

#include "device_layer.h"
#include "optimizer.h"

/** One layer of the stage and the begins of its parts. */
struct device_layer {
    const struct layer_ops *ops;
    int32_t index; /**< index in the model: -1 embedding, `layers` head */
    int32_t tensors_count;
    struct layer_tensor tensors[LAYER_TENSORS_MAX];
    /** Offsets of the tensors in an arena, in elements. */
    uint64_t offsets[LAYER_TENSORS_MAX];
    int32_t arrays_count;
    struct layer_array arrays[LAYER_ARRAYS_MAX];
    /** Offsets of the arrays in the layer's part, in bytes. */
    uint64_t places[LAYER_ARRAYS_MAX];
    uint64_t bytes[LAYER_PARTS]; /**< bytes of each part */
    uint64_t saved;              /**< offset of the layer's part of `saved`, in bytes */
    /** Offset of the layer's output in `saved`; the last layer has none. */
    uint64_t output;
    uint64_t kept; /**< offset of the layer's part of `kept` */
};

/** Offsets in the stage's allocation, in bytes. */
struct device_places {
    uint64_t masters;   /**< wide: `masters_count` arenas */
    uint64_t rounded;   /**< T: `versions_count` arenas; none where T is wide */
    uint64_t gradients; /**< wide: one arena */
    uint64_t moments;   /**< wide: `moments_count` arenas */
    uint64_t kept;      /**< `kept` of one layer, for the whole backward */
    uint64_t ping[2];   /**< gradients between layers */
    uint64_t scratch[DEVICE_LANES];
    uint64_t recomputed[DEVICE_LANES]; /**< `saved` of one layer, with recompute */
    uint64_t workspace[DEVICE_LANES];
};

struct device_layout {
    tryst_model model;
    tryst_stage_info info;
    tryst_precision precision;
    bool recompute;
    bool keeps_logits;
    bool rounds; /**< T is not wide: products read rounded copies of the masters */
    int32_t masters_count, moments_count;
    int32_t layers_count;
    struct device_layer *layers;
    uint64_t arena_count;      /**< elements, with the padding between tensors */
    uint64_t tensor_count_max; /**< elements of the largest tensor */
    uint64_t workspace_bytes;  /**< of each lane */
    struct device_places places;
    tryst_stage_memory memory;
};

/** Lay out the stage of `layers` of a resolved byte model; `params` are resolved too.
 *  Allocates `layers` of the layout (device_layout_close frees it). Returns TRYST_OK or
 *  TRYST_E_NOMEM. */
tryst_status device_layout_open(const tryst_model *model, tryst_layers layers,
                                const tryst_stage_params *params,
                                const struct optimizer_state *optimizer,
                                struct device_layout *layout_p);
void device_layout_close(struct device_layout *layout);

/** Return how many of the stage's layers, from its first, would fit into `bytes` as a
 *  stage; 0: none. */
int32_t device_layout_fitting(const struct device_layout *layout,
                              const tryst_stage_params *params,
                              const struct optimizer_state *optimizer, uint64_t bytes);

#endif
