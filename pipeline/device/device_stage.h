/* SPDX-License-Identifier: Apache-2.0 */
/* The stage that computes by device kernels. */
#ifndef TRYST_PIPELINE_DEVICE_DEVICE_STAGE_H
#define TRYST_PIPELINE_DEVICE_DEVICE_STAGE_H

#include "device_layout.h"

/** Limit of the marks of backward_input's ends (device_stage.c). */
enum { DEVICE_MARKS_MAX = 64 };

/** The event recorded at the end of the backward_input that belongs to `kept`. */
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
    char *memory; /**< the one allocation */
    uint64_t newest;
    struct device_mark marks[DEVICE_MARKS_MAX];
    uint32_t marks_next;
    /** Event: the last call that touched gradients or weights. */
    void *accumulated;
    int32_t accumulated_lane; /**< lane of that call */
    void *mirror; /**< host copies of one tensor and its gradient; NULL in host memory */
};

extern const tryst_stage_ops device_stage_ops; /* device_stage.c */

/** Open the stage for `layers` of a resolved byte model over `kernels`, as
 *  tryst_stage_open does. All arguments but params->optimizer are resolved and checked.
 *  (device_open.c) */
tryst_status device_stage_open(const tryst_model *model, tryst_layers layers,
                               const tryst_stage_params *params,
                               const struct device_kernels *kernels,
                               tryst_stage **stage_p);

/** Close a stage, also one that was opened in part. (device_open.c) */
void device_stage_close(tryst_stage *base);

/** Return an arena: of the master weights in `slot`, of the weights that products read at
 *  `version`, of the gradients, of a moment. */
static inline void *device_stage_wide(const struct device_stage *stage, uint64_t place,
                                      uint64_t slot)
{
    uint64_t bytes = device_dtype_bytes(device_precision_wide(stage->layout.precision));
    return stage->memory + place + slot * stage->layout.arena_count * bytes;
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
    uint64_t bytes = device_dtype_bytes(device_precision_dtype(stage->layout.precision));
    uint64_t slot = version % (uint64_t)stage->base.info.versions_count;
    return stage->memory + stage->layout.places.rounded +
           slot * stage->layout.arena_count * bytes;
}

static inline void *device_stage_weights(const struct device_stage *stage,
                                         uint64_t version)
{
    return stage->layout.rounds ? device_stage_rounded(stage, version)
                                : device_stage_masters(stage, version);
}

#endif
