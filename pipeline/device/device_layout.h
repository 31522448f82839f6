/* SPDX-License-Identifier: Apache-2.0 */
/* Where everything of a device stage lies: in its one allocation, in an arena of parameters, in
 * `saved` and in `kept`. Plain arithmetic on a model, so that a stage's need is known before there
 * is a device. */
#ifndef PIPELINE_DEVICE_LAYOUT_H
#define PIPELINE_DEVICE_LAYOUT_H

#include "device_layer.h"
#include "optimizer.h"

/* One layer of the stage and where its parts begin. */
typedef struct device_layer {
    const layer_ops *ops;
    int32_t index; /* in the model: -1 embedding, `layers` head */
    int32_t tensors_count;
    layer_tensor tensors[LAYER_TENSORS_MAX];
    uint64_t offsets[LAYER_TENSORS_MAX]; /* of the tensors in an arena, in elements */
    int32_t arrays_count;
    layer_array arrays[LAYER_ARRAYS_MAX];
    uint64_t places[LAYER_ARRAYS_MAX]; /* of the arrays in the layer's part, in bytes */
    uint64_t bytes[LAYER_PARTS];       /* of each part */
    uint64_t saved;                    /* of its part of `saved`, in bytes */
    uint64_t output;                   /* of its output there; the last has none */
    uint64_t kept;                     /* of its part of `kept` */
} device_layer;

/* Offsets in the stage's allocation, in bytes. */
typedef struct device_places {
    uint64_t masters;   /* wide: `masters_count` arenas */
    uint64_t rounded;   /* T: `versions_count` arenas; none where T is wide */
    uint64_t gradients; /* wide: one arena */
    uint64_t moments;   /* wide: `moments_count` arenas */
    uint64_t kept;      /* of one layer, for the whole backward */
    uint64_t ping[2];   /* gradients between layers */
    uint64_t scratch[DEVICE_LANES];
    uint64_t recomputed[DEVICE_LANES]; /* one layer's `saved`, when it is not kept */
    uint64_t workspace[DEVICE_LANES];
} device_places;

typedef struct device_layout {
    tryst_model model;
    tryst_stage_info info;
    tryst_precision precision;
    bool recompute;
    bool keeps_logits;
    bool rounds; /* T is not wide: products read rounded copies of the masters */
    int32_t masters_count, moments_count;
    int32_t layers_count;
    device_layer *layers;
    uint64_t arena_count;      /* elements, with the padding between tensors */
    uint64_t tensor_count_max; /* elements of the largest tensor */
    uint64_t workspace_bytes;  /* of each lane */
    device_places places;
    tryst_stage_memory memory;
} device_layout;

/* Lay out the stage of `layers` of a resolved byte model; `params` are resolved too. Allocates
 * `layers` of the layout (device_layout_close). Returns TRYST_OK or TRYST_E_NOMEM. */
tryst_status device_layout_open(const tryst_model *model, tryst_layers layers,
                                const tryst_stage_params *params,
                                const optimizer_state *optimizer,
                                device_layout *layout_p);
void device_layout_close(device_layout *layout);

/* How many of the stage's layers, from its first, a stage would have that needs at most `bytes`
 * for itself; 0: not one. */
int32_t device_layout_fitting(const device_layout *layout,
                              const tryst_stage_params *params,
                              const optimizer_state *optimizer, uint64_t bytes);

#endif
