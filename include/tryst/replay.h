/* SPDX-License-Identifier: Apache-2.0 */
/** @file replay.h
 *  The oracle for every schedule: one process that runs the same program in a plain loop.
 *  Library: libtryst_pipeline.
 *
 *  The replay takes the actions of all ranks in turn, each as soon as its inputs exist,
 *  with activations in plain arrays. It shares nothing with the engine or with the
 *  rendezvous, so an error that both have in common can only be in the program or the
 *  stages. Because stages are bitwise reproducible and each rank's actions keep their
 *  order, losses and weights must be *bitwise* equal to the engine's, on machines of one
 *  kind (with equal texts of tryst_blas_describe).
 *
 *  Of a replicated stage each replica is a stage of its own. The replay adds their
 *  gradients part by part, in the order of the plan of the engine's all-reduces.
 */
#ifndef TRYST_REPLAY_H
#define TRYST_REPLAY_H

#include <stdbool.h>
#include <tryst/coll.h>
#include <tryst/pipeline.h>

TRYST_BEGIN_DECLS

/** Find the order in which tree `tree` of the all-reduce of `sum` adds the gradients of
 *  `stage`, as tryst_coll_order_get does for the ranks of tryst_program_replicas. Any
 *  status but TRYST_OK ends the replay with that status. */
typedef tryst_status (*tryst_sum_order_fn)(void *arg, int32_t stage,
                                           const tryst_coll_params *sum, uint32_t tree,
                                           tryst_coll_order *order, int32_t *parents);

typedef struct tryst_replay_params {
    size_t struct_size;
    /** The program that the engine ran. */
    const tryst_program *program;
    /** All stages of the program, opened as the engine's were. Afterwards they hold the
     *  final weights (tryst_stage_weights_copy). */
    tryst_stage *const *stages;
    /** Stages on a device: the context for the device memory of the replay. Else
     *  unused. */
    tryst_ctx *ctx;
    tryst_feed_fn feed; /**< NULL where the stages need no data */
    void *feed_arg;
    uint64_t first_step;
    uint64_t steps_count;
    double *losses; /**< [steps_count] receives the mean loss of each step */
    /** [ranks × stages of the program]: the stage of each rank, NULL where it has none.
     *  If given, `stages` is ignored; needed where a stage is replicated. All replicas of
     *  a stage begin with the same weights. */
    tryst_stage *const *replicas;
    /** The order of additions. NULL: replica 0, plus replica 1, plus replica 2, … */
    tryst_sum_order_fn order;
    void *order_arg;
    /** Called after each step, in the same thread, with the number of steps done so far.
     *  NULL: not called. */
    void (*progress)(void *arg, uint64_t steps_done);
    void *progress_arg;
} tryst_replay_params;

/** Run the program once per step, and of a loop the epilogue in the last step of the call
 *  (tryst_engine_step_last).
 *
 *  One call replays one engine from its first step on: a weight version from before this
 *  call's first step is not read, but the one that the call found (tryst_action). If no
 *  action reads such a version, a run may also be replayed in several calls for
 *  consecutive steps, since the stages keep their state.
 *
 *  Blocks:  while it computes; it does not wait for other ranks.
 *  Returns: TRYST_OK
 *           TRYST_E_NOMEM
 *           TRYST_E_PROGRAM  no rank can continue; tryst_last_error names a waiting rank
 *           TRYST_E_INVALID  an action cannot run (a weight version that is not held,
 *                            say)
 *           or the status that `feed` returned
 */
TRYST_API tryst_status tryst_replay(const tryst_replay_params *params);

/** Results of a run. */
typedef struct tryst_replay_result {
    size_t struct_size;
    const double *losses; /**< [steps_count] */
    const float *weights; /**< [weights_count], in layer order; NULL: not compared */
} tryst_replay_result;

/** Compare a run with its replay, bit by bit (so a NaN equals the same NaN).
 *
 *  `text` (if capacity > 0) receives one sentence: that they are equal; or the first step
 *  with different losses, or else the first tensor and element that differ, with both
 *  values.
 *  Returns: true where all is equal.
 */
TRYST_API bool tryst_replay_equal(const tryst_model *model, uint64_t first_step,
                                  uint64_t steps_count, const tryst_replay_result *run,
                                  const tryst_replay_result *replay, char *text,
                                  size_t capacity);

TRYST_END_DECLS

#endif
