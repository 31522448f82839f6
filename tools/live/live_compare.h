/* SPDX-License-Identifier: Apache-2.0 */
/** @file live_compare.h
 *  Two samples of one job: the operations that waited from the first to the second. */
#ifndef TOOLS_LIVE_COMPARE_H
#define TOOLS_LIVE_COMPARE_H

#include "live.h"

/** An engine that runs renews its counts within this time (its housekeeping runs every 0.5 s). */
#define LIVE_COMPARE_TICKS_S 1.0

/** Mark in `ranks` which operations are in the `first` sample too, and which ranks completed nothing in between. */
void live_compare(const struct live_ranks *first, struct live_ranks *ranks,
                  double apart_s);
/** The operation that the rank is blocked on; NULL: it is not, or not known to be. After live_compare an operation
 *  counts only if it is in both samples. A rank that serves many operations in a loop counts as
 *  blocked on its oldest one if it completed nothing between the samples, and if its engine ran where they are
 *  LIVE_COMPARE_TICKS_S apart. */
const struct live_op *live_blocker(const struct live_rank *rank);
/** True if the rank sleeps on this one operation. */
bool live_sleeps_on(const struct live_rank *rank, const struct live_op *op);

#endif
