/* SPDX-License-Identifier: Apache-2.0 */
/** @file schedules.h
 *  What the generators share: additions to one rank's list, and the rows of all known
 *  schedules. */
#ifndef TRYST_PIPELINE_SCHEDULES_SCHEDULES_H
#define TRYST_PIPELINE_SCHEDULES_SCHEDULES_H

#include <tryst/pipeline.h>

/* A program has ranks_count × chunks_count stages, placed on ranks by its lists. Without
 * the option "v" a schedule has one chunk, or as many as its `check` sets chunks_count
 * to. */

/** The list of one rank while it is generated. After a failure additions have no
 *  effect. */
struct schedule_list {
    const tryst_schedule_params *params;
    tryst_program *program;
    int rank;
    tryst_status status; /**< of the first failure; TRYST_OK: none */
};

/** The weights that an action reads: those of a slot, or, if that is 0, a version. */
struct schedule_weights {
    int version;
    int slot;
};

struct schedule_list schedule_begin(const tryst_schedule_params *params,
                                    tryst_program *program, int rank);
/** Add F of micro-batch `microbatch` at `stage`. */
void schedule_forward(struct schedule_list *list, int stage, int microbatch,
                      struct schedule_weights weights);
/** Add B, with an R before it if params' `recompute` wants one. */
void schedule_backward(struct schedule_list *list, int stage, int microbatch,
                       struct schedule_weights weights);
/** Add I, with an R before it if params' `recompute` wants one. */
void schedule_input_grad(struct schedule_list *list, int stage, int microbatch,
                         struct schedule_weights weights);
/** Add the W of an I. */
void schedule_weight_grad(struct schedule_list *list, int stage, int microbatch,
                          struct schedule_weights weights);
/** Add the UPDATE that makes `version`. */
void schedule_update(struct schedule_list *list, int stage, int version);
/** Add a PREDICT of `slot`, `ahead` updates along a tryst_stage_direction. */
void schedule_predict(struct schedule_list *list, int stage, int slot, int direction,
                      double ahead);
/** Begin the body or the epilogue of a loop. */
void schedule_mark(struct schedule_list *list, tryst_program_part part);

/** Add F, B, F, B, … of `count` micro-batches at stage `rank`, the forwards `lead`
 *  micro-batches ahead: `lead` forwards first, and as many backwards at the end. The
 *  order of all schedules with one forward and one backward in turn. */
void schedule_alternate(struct schedule_list *list, int lead, int count);

/** Return NULL if the number of ranks is even, as two copies of the model in opposite
 *  directions need; else the sentence for tryst_schedule.check. */
const char *schedule_even_check(const tryst_schedule_params *params);

/** Return w = ranks - 1 - rank: the forwards by which a rank is ahead of the last. */
static inline int schedule_ahead(const tryst_schedule_params *params, int rank)
{
    return params->ranks_count - 1 - rank;
}

/** Return ⌊n / u⌋, of a negative n, too. */
static inline int schedule_floor(int n, int u)
{
    return n >= 0 ? n / u : -((-n + u - 1) / u);
}

static inline int schedule_min(int a, int b)
{
    return a < b ? a : b;
}

extern const tryst_schedule schedule_naive, schedule_gpipe, schedule_torchgpipe,
    schedule_1f1b, schedule_dapple_b, schedule_interleaved, schedule_bfs,
    schedule_pipedream, schedule_pipedream_vsync, schedule_pipedream_2bw,
    schedule_pipemare, schedule_xpipe, schedule_spectrain, schedule_zb_h1, schedule_zb_h2,
    schedule_zb_v, schedule_dualpipev, schedule_v_half, schedule_v_min, schedule_hanayo,
    schedule_chimera, schedule_dualpipe;

#endif
