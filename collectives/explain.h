/* SPDX-License-Identifier: Apache-2.0 */
/** @file explain.h
 *  The text of a failed collective, and the search for a missing neighbour.
 */
#ifndef TRYST_COLLECTIVES_EXPLAIN_H
#define TRYST_COLLECTIVES_EXPLAIN_H

#include "run.h"

/** Return the name of a kind ("all-reduce"); "collective" for any other value. Static. */
const char *coll_kind_name(tryst_coll_kind kind);
/** Write the text for run->cause. `text` is the text of the failed part, NULL: none. */
void run_explain(struct coll_run *run, const char *text);
/** Return the rank that the run waits for: a neighbour that has not joined, or else
 *  one that has joined and waits itself; -1: none. */
int32_t run_waits_for(const struct coll_run *run);
/** Return the name of the run's kind ("all-reduce"). Static. */
const char *run_kind_name(const struct coll_run *run);

#endif
