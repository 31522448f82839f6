/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of a device stage: of its one allocation, of an arena (an array with room
 * for every parameter of the stage), of `saved` and of `kept`. Plain arithmetic on a
 * model, so the memory that a stage needs is known without a device. */
#ifndef TRYST_PIPELINE_DEVICE_DEVICE_LAYOUT_H
#define TRYST_PIPELINE_DEVICE_DEVICE_LAYOUT_H

#include "device_layer.h"
#include "optimizer.h"

/** One layer of the stage, with the offsets of its tensors and arrays. */
struct device_layer {
    const struct layer_ops *ops;
    int32_t index; /**< index in the model: -1 embedding, model.layers head */
    int32_t tensors_count;
    struct layer_tensor tensors[LAYER_TENSORS_MAX];
    /** Offsets of the tensors in an arena, in elements. */
    uint64_t offsets[LAYER_TENSORS_MAX];
    int32_t arrays_count;
    struct layer_array arrays[LAYER_ARRAYS_MAX];
    /** Offsets of the arrays in the layer's part, in bytes. */
    uint64_t places[LAYER_ARRAYS_MAX];
    uint64_t bytes[LAYER_PARTS]; /**< bytes of each part */
    uint64_t saved;              /**< offset of the layer's part in `saved`, in bytes */
    /** Offset of the layer's output in `saved`, in bytes. Not used for the last layer:
     *  its output is the stage's. */
    uint64_t output;
    uint64_t kept; /**< offset of the layer's part in `kept`, in bytes */
    /** The layer's run in an arena, with the padding behind its tensors, in elements. */
    uint64_t first, count;
    uint64_t version; /**< newest weight version of this layer */
};

/** Offsets in the stage's allocation, in bytes. */
struct device_places {
    uint64_t masters;   /**< wide: `masters_count` arenas */
    uint64_t rounded;   /**< T: `versions_count` arenas; none where T is wide */
    uint64_t slots;     /**< T: `slots_count` arenas of predicted weights */
    uint64_t gradients; /**< wide: one arena */
    uint64_t moments;   /**< wide: `moments_count` arenas */
    uint64_t delta;     /**< wide: one arena if the stage keeps the mean change */
    uint64_t kept;    /**< one layer's part of `kept`, for a backward that is not split */
    uint64_t ping[2]; /**< gradients between layers, alternately */
    uint64_t scratch[DEVICE_LANES];
    uint64_t recomputed[DEVICE_LANES]; /**< with recompute: one layer's part of `saved` */
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

/** Lay out the stage for `layers` of a model that reads bytes. Model and params must be
 *  resolved. Allocates layout_p->layers, which device_layout_close frees. Returns
 *  TRYST_OK or TRYST_E_NOMEM. */
tryst_status device_layout_open(const tryst_model *model, tryst_layers layers,
                                const tryst_stage_params *params,
                                const struct optimizer_state *optimizer,
                                struct device_layout *layout_p);
void device_layout_close(struct device_layout *layout);

/** Return the number of layers of the largest stage that begins at the same layer, is
 *  smaller than this stage, and fits into `bytes`; 0 if none fits or the host is out of
 *  memory. */
int32_t device_layout_fitting(const struct device_layout *layout,
                              const tryst_stage_params *params,
                              const struct optimizer_state *optimizer, uint64_t bytes);

#endif
