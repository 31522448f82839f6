/* SPDX-License-Identifier: Apache-2.0 */
/** @file explain.h
 *  The text of a collective that failed, and which neighbour is missing.
 */
#ifndef COMMSCHED_COLL_EXPLAIN_H
#define COMMSCHED_COLL_EXPLAIN_H

#include "run.h"

/** Write the text for run->cause. `text` is that of the part which failed, NULL: it had none. */
void run_explain(struct coll_run *run, const char *text);
/** Return the rank at the other end of flow `index` of the run. */
int32_t run_flow_rank(const struct coll_run *run, uint32_t index);

#endif
