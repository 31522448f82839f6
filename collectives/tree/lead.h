/* SPDX-License-Identifier: Apache-2.0 */
/** @file lead.h
 *  The lead of a collective: how far its trees, and the children in them, may be apart.
 *
 *  Idea: the trees of a tensor are cut into equally many slices (coll_slice_bytes), so
 *  slice i is the same position in each of them. A rank has *passed on* a slice when it
 *  has left for the parent, at the root when it has been added. A rank grants slice i of
 *  a child only while i < least + ahead, where `least` is the number of slices passed on
 *  in the tree that has passed on the fewest. So the slowest edge of all trees clocks the
 *  collective: a child that is near cannot take the port from its sibling behind a trunk,
 *  a tree cannot take a link from the others, and no rate needs to be known.
 *
 *  No deadlock, for every `ahead` but 0: let r be the number of slices that the root of
 *  the last tree has added. Its sums contain the terms of all ranks, so each rank has
 *  passed on at least r slices of each tree, and `least` is at least r everywhere. Slice
 *  r is therefore granted at every rank, in every tree. The condition is one of the index
 *  alone, so siblings that wait for each other's grants are allowed the same slices.
 *  tests/model/flow.pml and tests/collectives/test_tree.c search for the opposite.
 *
 *  Pure: no flows, no clock.
 */
#ifndef TRYST_COLLECTIVES_TREE_LEAD_H
#define TRYST_COLLECTIVES_TREE_LEAD_H

#include "tree.h"

/** The lead of all collectives, in slices. From the grant of a slice until the parent
 *  has it there are two round trips, a queue, a sum, and several ranks that must run.
 *  Over two racks with a trunk of 400 Mbit/s, on two processors for four ranks, 4 slices
 *  of 64 KiB took 1.28 to 1.38 of the bound, 6 and 8 took 1.04 to 1.11. Of 64 ranks in
 *  two racks (tests/sim), 8 take 1.01 and 16, which fill the queue before the trunk,
 *  1.08. The planner makes slices long enough (topology/sized/plan_sizes.h). */
enum { COLL_LEAD = COLL_GRANTS_MAX };

struct coll_lead {
    /** the most slices beyond `least`: COLL_LEAD, and in tests any number from 1 */
    uint32_t ahead;
    uint32_t least;       /**< slices passed on in the unfinished tree with the fewest */
    uint32_t least_count; /**< unfinished trees with `least` slices passed on */
    struct coll_tree *first; /**< the trees (coll_tree.next); NULL: none passes on */
};

/** Set the limits of all trees, after coll_tree_reset. */
void coll_lead_begin(struct coll_lead *lead);
/** Note that `tree` has passed on one more slice. True if the limits have risen: children
 *  of any tree may be granted more. */
bool coll_lead_passed(struct coll_lead *lead, const struct coll_tree *tree);

#endif
