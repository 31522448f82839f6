/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold of every run: functions over its log.
 *
 * Idea: the log is played back on plain structs, which know nothing of the scheduler, and
 * each check looks at the moments that concern it. A check that found nothing to look at
 * says so (`looked`), and its caller sees to it that over many seeds there was enough. */
#ifndef TESTS_SIM_CHECKS_H
#define TESTS_SIM_CHECKS_H

#include "sim.h"

struct finding {
    uint64_t looked; /* at so many cases */
    double worst;    /* of waits on links that no other lane uses: part of the bound */
    bool found;      /* a fault */
    char text[300];  /* the first */
};

/* 1: no slice started while a more urgent one of its class was ready, posted, within
 * window on its lane and not held there by one before it. Background out of its turn is
 * the same. */
void check_inversions(const struct sim *sim, struct finding *finding);
/* 2: from when it is the most urgent of its rank, and ready, to its first slice at the
 * receiver, a training transfer waits no longer than wait_bound_ns. What the script
 * disturbs meanwhile is left out. */
void check_waits(const struct sim *sim, struct finding *finding);
/* (W + s)/B + L, and what `more_bytes` of others take; README.md. */
uint64_t wait_bound_ns(const struct sim *sim, int from, int to, double more_bytes);
/* 3: two ranks, one link: against the ideal, in which the most urgent has the link at
 * every moment. Of what is at least as urgent as a transfer, and was ready, no more than
 * a window, a slice and what the link takes in a round trip is still to come when the
 * ideal is through with it. And of two of which the ideal ends the more urgent first so
 * does the run, unless no more than a window and a slice of the other was to come when it
 * was ready. */
void check_order(const struct sim *sim, struct finding *finding);
/* 4: of what starts while the other class could, or has something to start on the same
 * lane, background is a sixteenth, within a tenth of that; two slices more or less where
 * that is less than 32 slices. */
void check_share(const struct sim *sim, struct finding *finding);
/* 5: all that was submitted has ended, before `deadline_ns`, both ends alike, well unless
 * it was cancelled or a rank of it was killed; and every slice of what went well came
 * once. */
void check_ends(const struct sim *sim, uint64_t deadline_ns, struct finding *finding);
/* 6: no rank was given up, other than as one that has left. */
void check_calm(const struct sim *sim, struct finding *finding);

#endif
