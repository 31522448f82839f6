/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that tests write themselves: from text, and the asynchronous 1F1B pipelines of
 * recurrence_rules.h, one stage on each rank. They share nothing with the library's
 * generators but tryst_program_append. */
#ifndef TRYST_TESTS_PIPELINE_HANDMADE_H
#define TRYST_TESTS_PIPELINE_HANDMADE_H

#include "recurrence_rules.h"

#include <tryst/pipeline.h>

/** Parse "0F0 0B0v-1 0UPDATE | 1F0 …": the actions of each rank, separated by bars.
 *
 *  An action is stage, kind and micro-batch; then "v" and a version (UPDATE: 1 if not
 *  given), or "s" and a slot. "0PREDICT:1" fills slot 1 with the newest weights, one step
 *  ahead. "[" and "]" are the marks: body and epilogue begin there. Any error fails the
 *  test. */
tryst_program *handmade_parse(int ranks_count, int stages_count, int microbatches_count,
                              const char *text);

struct handmade {
    const struct recurrence_rule *rule;
    struct recurrence_pipe pipe;
    /** Micro-batches of the whole program (flat), or of a step (loop): a multiple of
     *  pipe.every. */
    int microbatches_count;
    bool is_loop;
    bool is_split;   /**< I and W instead of B */
    bool recomputes; /**< an R before each B or I */
};

/** Write an asynchronous pipeline: stage s runs min(w, inflight - 1) forwards, then a
 *  forward and a backward in turn; each PREDICT just before its first reader, each UPDATE
 *  just behind its last gradient. `pipe.inflight` 0: no limit. */
tryst_program *handmade_pipeline(const struct handmade *params);

/** Append one action; any error fails the test. */
void handmade_append(tryst_program *program, int rank, tryst_action action);

/** Write the lists of all ranks as handmade_parse reads them (an `ahead` or direction of
 *  its own behind a PREDICT); cut off at `capacity`. Returns `text`. */
const char *handmade_format(const tryst_program *program, char *text, size_t capacity);

#endif
