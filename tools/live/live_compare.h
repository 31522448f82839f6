/* SPDX-License-Identifier: Apache-2.0 */
/** @file live_compare.h
 *  Compares two samples of one job: which operations waited from the first to the
 *  second. */
#ifndef TRYST_TOOLS_LIVE_LIVE_COMPARE_H
#define TRYST_TOOLS_LIVE_LIVE_COMPARE_H

#include "live.h"

/** An engine that runs updates its counts within this time (its housekeeping runs every
 *  0.5 s). */
#define LIVE_COMPARE_TICKS_S 1.0

/** Mark in `ranks` the operations that are in the `first` sample too (`stood`), and the
 *  ranks that completed nothing in between (`idle`). */
void live_compare(const struct live_ranks *first, struct live_ranks *ranks,
                  double apart_s);
/** Return the operation that blocks the rank; NULL: none, or unknown. After live_compare
 *  an operation counts only if it is in both samples.
 *
 *  A thread that sleeps on one operation, except a close, is blocked on that operation. A
 *  rank that serves many operations in a loop counts as blocked on its oldest one if it
 *  completed nothing between the samples and, with samples LIVE_COMPARE_TICKS_S or more
 *  apart, its engine ran between them. Where this is a collective that names no rank, the
 *  oldest collective that names one takes its place: collectives of one rank end in any
 *  order, but all wait for the ranks that do not join. */
const struct live_op *live_blocker(const struct live_rank *rank);
/** True if the thread of the rank sleeps on one operation, except a close. */
bool live_sleeps(const struct live_rank *rank);

#endif
