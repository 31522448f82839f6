/* SPDX-License-Identifier: Apache-2.0 */
/** @file fusion.h
 *  Which operations to join, where each costs an overhead beside its bytes.
 *
 *  Idea: let operations be sorted by the time at which they are ready, and their tails
 *  rise in the same order, as in data-parallel training, where the gradient that is ready
 *  last is needed first. A group of neighbours is ready with its last member and has that
 *  member's tail. Under preemptive priority the step then takes the largest, over the
 *  groups, of
 *
 *      ready + tail + costs of this group and of all later ones
 *
 *  (each later group is ready later and is more urgent). Whether a time is enough is
 *  found in one pass: from the last operation to the first, make each group as long as
 *  the time permits, for fewer groups cost less. Bisection finds the least time.
 *
 *  No group needs a gap: with the same last members, groups of neighbours leave the same
 *  bytes or fewer to the later ones. So the result is the best of all partitions. Where
 *  tails do not rise, they are taken to be as long as the longest one before, and the
 *  result is only a good one.
 *
 *  PACE (Bao et al., INFOCOM 2020) merges by dynamic programming with the step's time as
 *  its oracle.
 */
#ifndef TRYST_COMMSCHED_PROFILE_FUSION_H
#define TRYST_COMMSCHED_PROFILE_FUSION_H

#include <stdint.h>

struct fusion_item {
    double ready_s, tail_s;
    double seconds; /**< of its bytes */
    /** Of the plan, for an item that begins a group: its last item, and the number of
     *  groups from this one on. */
    uint32_t last, groups_count;
};

/** Partition `items` [count] (1 at least), sorted by ready_s, into groups that cost
 *  `overhead_s` beside their bytes: the first one begins with item 0, the next one behind
 *  its last item, and so on. Raises tails to what was taken. */
void fusion_plan(struct fusion_item *items, uint32_t count, double overhead_s);

#endif
