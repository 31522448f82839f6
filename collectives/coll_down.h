/* SPDX-License-Identifier: Apache-2.0 */
/** @file coll_down.h
 *  A slice of the result descends: from the parent to the children.
 */
#ifndef TRYST_COLLECTIVES_COLL_DOWN_H
#define TRYST_COLLECTIVES_COLL_DOWN_H

#include "run.h"

/** Set the hooks of descending flow `index` of a tree, and find its memory. True if the
 *  flow sends. */
bool coll_down_flow_set(struct coll_tree_run *at, uint32_t index, void **data_p);
/** Announce slices of the result to the children, and place slices that waited for their
 *  sums to leave. */
void coll_down_update(struct coll_tree_run *at);

#endif
