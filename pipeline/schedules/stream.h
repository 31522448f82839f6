/* SPDX-License-Identifier: Apache-2.0 */
/** @file stream.h
 *  What asynchronous schedules share (stream.c). */
#ifndef TRYST_PIPELINE_SCHEDULES_STREAM_H
#define TRYST_PIPELINE_SCHEDULES_STREAM_H

#include "schedules.h"

/** An asynchronous schedule: how the actions of a micro-batch get their weights.
 *  Micro-batch `n` counts from the start of the flat program, or of the step that runs
 *  the action; a version may then be negative. */
struct schedule_stream {
    /** Number of forwards before the first backward on this rank. */
    int (*lead)(const tryst_schedule_params *params, int rank);
    /** Add what comes before the F of `n`, and return what it reads. */
    struct schedule_weights (*forward)(struct schedule_list *list, int n);
    /** The same for its B. */
    struct schedule_weights (*backward)(struct schedule_list *list, int n);
};

/** Write one rank's list of an asynchronous schedule: one forward and one backward in
 *  turn, an UPDATE behind every `every`-th backward; flat with params' updates_count,
 *  else a loop. */
tryst_status schedule_stream_write(const tryst_schedule_params *params,
                                   tryst_program *program, int rank,
                                   const struct schedule_stream *stream);

/** Set `every` to `fallback` if it is 0. Returns NULL, or the sentence of a refusal: a
 *  loop's step must have a whole number of UPDATEs, and reach over all ranks. */
const char *schedule_every_set(tryst_schedule_params *params, int fallback);

#endif
