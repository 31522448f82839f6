/* SPDX-License-Identifier: Apache-2.0 */
/** @file coll_up.h
 *  A slice climbs: from announcement by a child to the send to the parent.
 */
#ifndef TRYST_COLLECTIVES_COLL_UP_H
#define TRYST_COLLECTIVES_COLL_UP_H

#include "run.h"

/** The hooks of the flows from a child and to the parent. */
extern const struct flow_ops flow_up_from_child, flow_up_to_parent;

/** Set the hooks of climbing flow `index` of a tree, and find its memory. True if the
 *  flow sends. */
bool coll_up_flow_set(struct coll_tree_run *at, uint32_t index, void **data_p);
/** Compute the due units of a tree, `budget` bytes at most. Returns the computed
 *  bytes. */
uint64_t coll_up_add(struct coll_tree_run *at, uint64_t budget);
/** Announce ready sums to the parent, and grant scratch to children that waited. */
void coll_up_update(struct coll_tree_run *at);
/** Return the scratch of a child's slices that were not added. */
void coll_up_scratch_release(struct coll_tree_run *at, uint32_t child);

#endif
