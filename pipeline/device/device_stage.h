/* SPDX-License-Identifier: Apache-2.0 */
/* The stage that computes by device kernels. */
#ifndef TRYST_PIPELINE_DEVICE_DEVICE_STAGE_H
#define TRYST_PIPELINE_DEVICE_DEVICE_STAGE_H

#include "device_layout.h"

/** Number of marks of a stage: as many backward_inputs have an event of their own until
 *  their backward_weight (device_stage.c). */
enum { DEVICE_MARKS_MAX = 64 };

/** The event that is recorded after the backward_input that fills `kept`. */
struct device_mark {
    const void *kept; /**< NULL: free */
    void *event;
};

struct device_stage {
    tryst_stage base;
    struct device_layout layout;
    struct optimizer_state optimizer;
    const struct device_kernels *kernels;
    struct device_session *session;
    char *memory;    /**< the one allocation */
    uint64_t newest; /**< newest weight version */
    bool *filled;    /**< [slots_count]: a prediction has written the slot */
    double delta_decay;
    /** The update that made or makes `newest`, without pointers and count. */
    struct device_update updating;
    struct device_mark marks[DEVICE_MARKS_MAX];
    uint32_t marks_next; /**< mark to be replaced next when none is free */
    /** Event recorded after the last call that changed gradients or weights. */
    void *accumulated;
    int32_t accumulated_lane; /**< lane of that call */
    /** Host memory for copies of one tensor and its gradient; NULL if the stage's memory
     *  is the host's. */
    void *mirror;
};

extern const tryst_stage_ops device_stage_ops; /* device_stage.c */

/** Open the stage for `layers` of a model that reads bytes over `kernels`, as
 *  tryst_stage_open does. All arguments but params->optimizer must be resolved and
 *  checked. (device_open.c) */
tryst_status device_stage_open(const tryst_model *model, tryst_layers layers,
                               const tryst_stage_params *params,
                               const struct device_kernels *kernels,
                               tryst_stage **stage_p);

/** Close a stage, also one that was opened in part. (device_open.c) */
void device_stage_close(tryst_stage *base);

/** Return arena number `index` of the wide arenas that begin at `place`, an offset of
 *  device_places: masters, gradients, moments or delta. */
static inline void *device_stage_wide(const struct device_stage *stage, uint64_t place,
                                      uint64_t index)
{
    uint64_t bytes = device_dtype_bytes(device_precision_wide(stage->layout.precision));
    return stage->memory + place + index * stage->layout.arena_count * bytes;
}

/** As device_stage_wide, of the arenas of type T: rounded or slots. */
static inline void *device_stage_narrow(const struct device_stage *stage, uint64_t place,
                                        uint64_t index)
{
    uint64_t bytes = device_dtype_bytes(device_precision_dtype(stage->layout.precision));
    return stage->memory + place + index * stage->layout.arena_count * bytes;
}

static inline void *device_stage_masters(const struct device_stage *stage,
                                         uint64_t version)
{
    uint64_t count = (uint64_t)stage->layout.masters_count;
    return device_stage_wide(stage, stage->layout.places.masters, version % count);
}

static inline void *device_stage_rounded(const struct device_stage *stage,
                                         uint64_t version)
{
    uint64_t count = (uint64_t)stage->base.info.versions_count;
    return device_stage_narrow(stage, stage->layout.places.rounded, version % count);
}

/** Return the arena of predicted weights of `slot`, from 1. */
static inline void *device_stage_slot(const struct device_stage *stage, int32_t slot)
{
    return device_stage_narrow(stage, stage->layout.places.slots, (uint64_t)slot - 1);
}

/** Return the arena of the weights that products read at `version`. */
static inline void *device_stage_weights(const struct device_stage *stage,
                                         uint64_t version)
{
    return stage->layout.rounds ? device_stage_rounded(stage, version)
                                : device_stage_masters(stage, version);
}

#endif
