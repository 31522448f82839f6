/* SPDX-License-Identifier: Apache-2.0 */
/** @file work.h
 *  The arithmetic of a tree, and the flows' part of it.
 */
#ifndef COMMSCHED_COLL_WORK_H
#define COMMSCHED_COLL_WORK_H

#include "run.h"

/** Compute what is due in a tree, at most `budget` bytes; returns the bytes. */
uint64_t tree_work(struct coll_tree_run *at, uint64_t budget);
/** Compute the one unit that is due now, whole. */
void tree_work_unit(struct coll_tree_run *at);
/** Let the protocol know what the counters allow by now. */
void tree_tell(struct coll_tree_run *at);
/** Take back what scratch a child's slices still have. */
void tree_slots_release(struct coll_tree_run *at, uint32_t child);

#endif
