/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Some ranks of a group (subgroup.h): its references, and queries.
 */
#include <inttypes.h>
#include <stdio.h>

#include "commsched/profile/priorities.h"
#include "core/memory/alloc.h"
#include "subgroup.h"

/* ---- references -------------------------------------------------------------------- */

tryst_subgroup *subgroup_ref(const tryst_subgroup *subgroup)
{
    tryst_subgroup *own = (tryst_subgroup *)subgroup;
    /* relaxed: the caller holds a reference already. */
    if (own)
        atomic_fetch_add_explicit(&own->refs, 1, memory_order_relaxed);
    return own;
}

void subgroup_unref(tryst_subgroup *subgroup)
{
    /* acq_rel: all uses under other references happen before the free. */
    if (!subgroup ||
        atomic_fetch_sub_explicit(&subgroup->refs, 1, memory_order_acq_rel) != 1)
        return;
    priorities_close(subgroup->priorities);
    mem_free(subgroup->plan);
    mem_free(subgroup);
}

const char *subgroup_suffix(const tryst_subgroup *subgroup,
                            char text[SUBGROUP_SUFFIX_BYTES])
{
    *text = 0;
    if (subgroup)
        snprintf(text, SUBGROUP_SUFFIX_BYTES, ";subgroup %" PRIx64 ".%016" PRIx64,
                 subgroup->epoch, subgroup->digest);
    return text;
}

bool subgroup_has(const tryst_subgroup *subgroup, int32_t rank)
{
    for (uint32_t i = 0; subgroup && i < subgroup->count; i++)
        if (subgroup->members[i] == rank)
            return true;
    return !subgroup;
}

int subgroup_size_in(const tryst_subgroup *subgroup, const tryst_group *group)
{
    return subgroup ? tryst_subgroup_size(subgroup) : tryst_group_size(group);
}

int subgroup_rank_in(const tryst_subgroup *subgroup, const tryst_group *group)
{
    return subgroup ? tryst_subgroup_rank(subgroup) : tryst_group_rank(group);
}

/* ---- queries ----------------------------------------------------------------------- */

int tryst_subgroup_rank(const tryst_subgroup *subgroup)
{
    return subgroup ? (int)subgroup->rank : -1;
}

int tryst_subgroup_size(const tryst_subgroup *subgroup)
{
    return subgroup ? (int)subgroup->count : -1;
}

int tryst_subgroup_member(const tryst_subgroup *subgroup, int number)
{
    bool given = subgroup && number >= 0 && (uint32_t)number < subgroup->count;
    return given ? subgroup->members[number] : -1;
}
