/* SPDX-License-Identifier: Apache-2.0 */
/* Frozen by tests/api/abi/freeze.sh: do not edit. */
#ifndef TRYST_REPLAY_H
#define TRYST_REPLAY_H

#include <stdbool.h>
#include <tryst/coll.h>
#include <tryst/pipeline.h>

TRYST_BEGIN_DECLS

typedef tryst_status (*tryst_sum_order_fn)(void *arg, int32_t stage,
                                           const tryst_coll_params *sum, uint32_t tree,
                                           tryst_coll_order *order, int32_t *parents);

typedef struct tryst_replay_params {
    size_t struct_size;
    const tryst_program *program;
    tryst_stage *const *stages;
    tryst_ctx *ctx;
    tryst_feed_fn feed;
    void *feed_arg;
    uint64_t first_step;
    uint64_t steps_count;
    double *losses;
    tryst_stage *const *replicas;
    tryst_sum_order_fn order;
    void *order_arg;
    void (*progress)(void *arg, uint64_t steps_done);
    void *progress_arg;
} tryst_replay_params;

TRYST_API tryst_status tryst_replay(const tryst_replay_params *params);

typedef struct tryst_replay_result {
    size_t struct_size;
    const double *losses;
    const float *weights;
} tryst_replay_result;

TRYST_API bool tryst_replay_equal(const tryst_model *model, uint64_t first_step,
                                  uint64_t steps_count, const tryst_replay_result *run,
                                  const tryst_replay_result *replay, char *text,
                                  size_t capacity);

TRYST_END_DECLS

#endif
