/* SPDX-License-Identifier: Apache-2.0 */
/** @file explain.h
 *  The text of a collective that failed, and which neighbour is missing.
 */
#ifndef COMMSCHED_COLL_EXPLAIN_H
#define COMMSCHED_COLL_EXPLAIN_H

#include "run.h"

/** Return the name of a kind ("all-reduce"); "collective" for any other value. Static. */
const char *coll_kind_name(tryst_coll_kind kind);
/** Write the text for run->cause. `text` is that of the part which failed, NULL: it had none. */
void run_explain(struct coll_run *run, const char *text);
/** Return the rank that the run waits for: a neighbour from which nothing has come, or else one that waits itself;
 *  -1: there is none. */
int32_t run_waits_for(const struct coll_run *run);
/** Return what the collective is called in texts: "all-reduce". */
const char *run_kind_name(const struct coll_run *run);
/** Return the rank at the other end of flow `index` of the run. */
int32_t run_flow_rank(const struct coll_run *run, uint32_t index);

#endif
