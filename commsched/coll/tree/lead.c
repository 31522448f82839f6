/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lead of a collective (lead.h).
 *
 * Idea: the trees with the fewest slices passed on are counted, so most slices cost a
 * comparison, and all trees are compared once for each slice of the last one.
 */
#include "lead.h"

#include "core/os/clock.h"

/* The time that the lead covers, at the planned rate: from the grant of a slice until the
 * parent has it there are two round trips, a queue, and several ranks that must run. Over
 * two racks with a trunk of 400 Mbit/s, two processors for four ranks, 5 ms took 1.4 to
 * 1.6 of the bound, 8 ms 1.05 to 1.07, 10 ms 1.04 to 1.12 (tests/perf/RESULTS.md). */
#define LEAD_NS (10 * NS_PER_MS)
/* The least lead, where slices take long: one slice that is passed on, one that is added,
 * one on the wire, one granted. */
enum { LEAD_SLICES_MIN = 4 };

uint32_t coll_lead_ahead(uint64_t bytes_per_s, uint64_t round_bytes)
{
    if (!bytes_per_s || !round_bytes)
        return UINT32_MAX;
    double slices = (double)bytes_per_s / NS_PER_S * LEAD_NS / (double)round_bytes;
    if (slices >= UINT32_MAX / 2)
        return UINT32_MAX;
    return slices > LEAD_SLICES_MIN ? (uint32_t)slices : LEAD_SLICES_MIN;
}

/* Find the trees with the fewest slices passed on, and set the limits of all. */
static void lead_follow(struct coll_lead *lead)
{
    lead->least = UINT32_MAX;
    for (const struct coll_tree *tree = lead->first; tree; tree = tree->next) {
        uint32_t passed = coll_tree_passed(tree);
        if (passed == tree->slices || passed > lead->least)
            continue;
        lead->least_count = passed < lead->least ? 1 : lead->least_count + 1;
        lead->least = passed;
    }
    uint32_t room = UINT32_MAX - lead->least;
    uint32_t limit = lead->ahead < room ? lead->least + lead->ahead : UINT32_MAX;
    for (struct coll_tree *tree = lead->first; tree; tree = tree->next)
        tree->limit = limit;
}

void coll_lead_begin(struct coll_lead *lead)
{
    lead->least_count = 0;
    lead_follow(lead);
}

bool coll_lead_passed(struct coll_lead *lead, const struct coll_tree *tree)
{
    if (coll_tree_passed(tree) != lead->least + 1 || --lead->least_count)
        return false;
    lead_follow(lead);
    return true;
}
