/* SPDX-License-Identifier: Apache-2.0 */
/** @file v.h
 *  What schedules with stages in a V share (v.c): rank r of p has the stages r and
 *  2p - 1 - r, its chunks 0 and 1. */
#ifndef TRYST_PIPELINE_SCHEDULES_V_H
#define TRYST_PIPELINE_SCHEDULES_V_H

#include "schedules.h"

/** One rank's list while it is written. Each kind of action takes the micro-batches of a
 *  chunk in rising order. */
struct schedule_v {
    struct schedule_list list;
    int forwards[2];     /**< per chunk: micro-batch of the next F */
    int input_grads[2];  /**< … of the next I or B */
    int weight_grads[2]; /**< … of the next W */
};

/** Set the number of chunks. The `check` of schedules that any number of micro-batches
 *  suits. Returns NULL. */
const char *schedule_v_check(tryst_schedule_params *params);

struct schedule_v schedule_v_begin(const tryst_schedule_params *params,
                                   tryst_program *program, int rank);
/** Add `kind` ('F', 'B', 'I' or 'W') of the chunk's next micro-batch; nothing if that is
 *  beyond the last. */
void schedule_v_add(struct schedule_v *v, char kind, int chunk);
/** Add each of `actions`, "F1 I1 W1" (kind and chunk), `times` times in turn. */
void schedule_v_repeat(struct schedule_v *v, int times, const char *actions);

#endif
