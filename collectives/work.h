/* SPDX-License-Identifier: Apache-2.0 */
/** @file work.h
 *  The arithmetic of a tree, and the updates of its flows.
 */
#ifndef TRYST_COLLECTIVES_WORK_H
#define TRYST_COLLECTIVES_WORK_H

#include "run.h"

/** Compute the due units of a tree, `budget` bytes at most. Returns the computed
 *  bytes. */
uint64_t tree_work(struct coll_tree_run *at, uint64_t budget);
/** Compute the next due unit as a whole. A unit is due, and none is begun. */
void tree_work_unit(struct coll_tree_run *at);
/** Update the flows by the counters: announce ready slices, and place slices that had
 *  to wait. */
void tree_flows_update(struct coll_tree_run *at);
/** Mark the trees in which a child waits for a grant: the limits of the lead have
 *  risen. */
void run_waiting_mark(struct coll_run *run);
/** Return the scratch of a child's slices that were not added. */
void tree_slots_release(struct coll_tree_run *at, uint32_t child);

#endif
