/* SPDX-License-Identifier: Apache-2.0 */
/** @file fail.h
 *  Failures of a collective: their cause, their text, the ends of its flows, and the
 *  search for a missing neighbour.
 */
#ifndef TRYST_COLLECTIVES_FAIL_H
#define TRYST_COLLECTIVES_FAIL_H

#include "run.h"

/** Note the first cause of a failure, and mark the run. Ends nothing, so any hook may
 *  call this. */
void run_fail(struct coll_run *run, struct cause cause, const char *text);
/** Note a failure of this rank, as run_fail does. */
static inline void run_fail_own(struct coll_run *run, tryst_status status,
                                const char *text)
{
    run_fail(run, (struct cause){status, -1, status}, text);
}
/** Fail a run if one of its ranks has died or left. */
void run_fail_if_lost(struct coll_run *run);

/** The hooks `failing` and `ended` of all flows (protocol/flow.h). */
struct cause coll_flow_failing(const struct flow *flow);
void coll_flow_ended(struct flow *flow, struct cause cause, const char *text);

/** Return the name of a kind ("all-reduce"); "collective" for any other value. Static. */
const char *coll_kind_name(tryst_coll_kind kind);
/** Return the rank that the run waits for: a neighbour that has not joined, or else
 *  one that has joined and waits itself; -1: none. */
int32_t run_waits_for(const struct coll_run *run);

#endif
