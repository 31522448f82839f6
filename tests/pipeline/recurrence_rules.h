/* SPDX-License-Identifier: Apache-2.0 */
/* Pipeline systems as recurrences: the weights that F and B of micro-batch n read at
 * stage s, as formulae. No program and no order of ranks is behind them. Sources and
 * derivations: the table of asynchronous systems in the documents of the pipeline;
 * PipeDream (Narayanan et al. 2019), PipeDream-2BW (Narayanan et al. 2021), PipeMare
 * (Yang et al. 2021), SpecTrain (Chen et al. 2018), XPipe (Guan et al. 2019).
 *
 * p stages, w = p - 1 - s, u micro-batches an UPDATE, n counted over the whole run. The
 * newest version that F(n) can find is max(0, floor((n - w) / u)), and B(n) finds
 * floor(n / u). */
#ifndef TRYST_TESTS_PIPELINE_RECURRENCE_RULES_H
#define TRYST_TESTS_PIPELINE_RECURRENCE_RULES_H

#include <stdbool.h>
#include <stdint.h>

/** A pipeline. */
struct recurrence_pipe {
    int stages_count; /**< p */
    int every;        /**< u: micro-batches of an UPDATE */
    int inflight;     /**< N: micro-batches in flight; pipedream-vsync alone */
};

/** The weights that a computation reads. */
struct recurrence_read {
    int64_t version;
    int slot;      /**< 0: the version itself; else it was moved, and kept there */
    double ahead;  /**< slot: number of updates by which it was moved */
    int direction; /**< slot: a tryst_stage_direction */
    /** The slot was written for the first micro-batch of each UPDATE, when `version` was
     *  the newest, and micro-batch n is that one. */
    bool is_written;
};

typedef struct recurrence_read (*recurrence_read_fn)(const struct recurrence_pipe *pipe,
                                                     int stage, int64_t n);

struct recurrence_rule {
    const char *name; /**< the schedule's */
    recurrence_read_fn forward, backward;
    bool is_reversed; /**< the gradients of an UPDATE are summed from its last
                         micro-batch to its first */
    bool predicts;
};

/** Return a rule by name; fail the test if there is none. "sync" and "sync-reversed" are
 *  the synchronous schedules of either order of summing, with u = m. */
const struct recurrence_rule *recurrence_rule_find(const char *name);

/** Return the mean number of updates between the weights that F reads and those that the
 *  micro-batch's gradient changes, over the micro-batches [n - u, n). */
double recurrence_delay(const struct recurrence_rule *rule,
                        const struct recurrence_pipe *pipe, int stage, int64_t n);

/** Return the factor of the learning rate of UPDATE t (from 0) for a delay:
 *  max(1, delay)^-(1 - min(t / updates, 1)); 1 if `updates` is 0. (PipeMare's T1) */
double recurrence_rate(double delay, int64_t t, int updates);

#endif
