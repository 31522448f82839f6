/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lead of a collective (lead.h).
 *
 * Idea: the trees with the fewest slices passed on are counted, so most slices cost a
 * comparison, and all trees are compared once for each slice of the last one.
 */
#include "lead.h"

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
