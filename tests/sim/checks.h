/* SPDX-License-Identifier: Apache-2.0 */
/* The conditions that must hold in every run, as functions over the run's log.
 *
 * Idea: the log is replayed on plain structs, which are independent of the scheduler, and
 * each check examines the moments that concern it. A check counts its cases (`looked`),
 * and its caller fails if many seeds together had too few. */
#ifndef TRYST_TESTS_SIM_CHECKS_H
#define TRYST_TESTS_SIM_CHECKS_H

#include "sim.h"

struct finding {
    uint64_t looked; /**< number of cases */
    /** Longest wait on links that no other lane uses, as a part of the bound. */
    double worst;
    bool found;     /**< true if a fault was found */
    char text[300]; /**< text of the first fault */
};

/** 1: no slice started while a more urgent one of its class was ready, posted, within its
 *  lane's window and not behind another one of its lane. Background out of its turn is
 *  also a fault. */
void check_inversions(const struct sim *sim, struct finding *finding);
/** 2: a training transfer waits no longer than wait_bound_ns, from the time when it is
 *  ready and the most urgent of its rank to the arrival of its first slice at the
 *  receiver. Waits that the script disturbs are left out. */
void check_waits(const struct sim *sim, struct finding *finding);
/** Return (W + s)/B + L, plus the time of `more_bytes` of other transfers; see
 *  README.md. */
uint64_t wait_bound_ns(const struct sim *sim, int from, int to, double more_bytes);
/** 3: two ranks and one link, against the ideal schedule, in which the most urgent
 *  transfer has the whole link at every moment. When the ideal schedule ends a transfer,
 *  the ready transfers of at least its urgency may have no more bytes left in the run
 *  than a window, a slice and a round trip of the link. If the ideal schedule ends the
 *  more urgent of two transfers first, so does the run, unless the other had no more than
 *  a window and a slice left when the more urgent one became ready. */
void check_order(const struct sim *sim, struct finding *finding);
/** 4: background gets a sixteenth, within a tenth of that, of the bytes that start while
 *  the other class could start, or has a slice to start on the same lane. For less than
 *  32 slices the tolerance is two slices. */
void check_share(const struct sim *sim, struct finding *finding);
/** 5: all submitted operations have ended before `deadline_ns`, with the same status at
 *  both ends, and with success unless an end was cancelled or a rank was killed. Every
 *  slice of a successful transfer arrived once. */
void check_ends(const struct sim *sim, uint64_t deadline_ns, struct finding *finding);
/** 6: no rank was given up, except one that has left. */
void check_calm(const struct sim *sim, struct finding *finding);

#endif
