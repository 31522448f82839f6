/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public calls of subgroups (tryst/coll.h).
 *
 * Idea: a subgroup is a list of members and a contracted plan. Its collectives use the
 * peers and steps of the group, under keys that name the epoch and the members (parts.c),
 * so collectives of two subgroups never match.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "collectives/tree/contract.h"
#include "commsched/profile/priorities.h"
#include "core/memory/alloc.h"
#include "core/text/hash.h"
#include "core/text/refuse.h"
#include "prepare.h"
#include "rendezvous/coll_op.h"
#include "subgroup.h"
#include "tryst/sized.h"

static const char open_call[] = "open a subgroup";

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

/* ---- open -------------------------------------------------------------------------- */

/* True if members[at] is not among the members before it. */
static bool is_new(const int32_t *members, uint32_t at)
{
    for (uint32_t i = 0; i < at; i++)
        if (members[i] == members[at])
            return false;
    return true;
}

tryst_status subgroup_members_check(const tryst_group *group,
                                    const tryst_subgroup_params *params, const char *call)
{
    int32_t size = tryst_group_size(group);
    if (!params->members)
        return refuse_null(call, "subgroup_params->members");
    if (!params->count || params->count > (uint32_t)size)
        return refuse(TRYST_E_INVALID,
                      "cannot %s: count is %" PRIu32 " (1 to %" PRId32
                      ", the number of ranks of the group)",
                      call, params->count, size);
    for (uint32_t i = 0; i < params->count; i++) {
        int32_t member = params->members[i];
        if (member < 0 || member >= size)
            return refuse(TRYST_E_INVALID,
                          "cannot %s: members[%" PRIu32 "] is %" PRId32
                          "; ranks of the group are 0 to %" PRId32,
                          call, i, member, size - 1);
        if (!is_new(params->members, i))
            return refuse(TRYST_E_INVALID,
                          "cannot %s: rank %" PRId32 " is a member twice", call, member);
    }
    return TRYST_OK;
}

/* Find this rank among the members. */
static tryst_status rank_find(const tryst_group *group,
                              const tryst_subgroup_params *params, uint32_t *rank_p)
{
    int32_t rank = tryst_group_rank(group);
    for (uint32_t i = 0; i < params->count; i++) {
        if (params->members[i] == rank) {
            *rank_p = i;
            return TRYST_OK;
        }
    }
    return refuse(TRYST_E_INVALID,
                  "cannot %s: this rank, %" PRId32 ", is not a member; members alone "
                  "open a subgroup",
                  open_call, rank);
}

static tryst_subgroup *subgroup_make(tryst_group *group,
                                     const tryst_subgroup_params *params, uint32_t rank)
{
    struct colls *colls = group_colls(group);
    size_t bytes = params->count * sizeof *params->members;
    const struct coll_plan *plan = coll_plan_get(colls, group);
    tryst_subgroup *subgroup = plan ? mem_zalloc(sizeof *subgroup + bytes) : NULL;
    if (!subgroup)
        return NULL;
    atomic_init(&subgroup->refs, 1);
    subgroup->colls = colls;
    subgroup->group = group;
    subgroup->epoch = params->epoch;
    subgroup->digest = hash_bytes((const char *)params->members, bytes);
    subgroup->count = params->count;
    subgroup->rank = rank;
    memcpy(subgroup->members, params->members, bytes);
    subgroup->plan = coll_plan_contract(plan, subgroup->members, params->count, rank);
    if (colls->host.priorities)
        subgroup->priorities = priorities_open();
    if (subgroup->plan && (subgroup->priorities || !colls->host.priorities))
        return subgroup;
    subgroup_unref(subgroup);
    return NULL;
}

tryst_status tryst_subgroup_open(tryst_group *group,
                                 const tryst_subgroup_params *subgroup_params,
                                 tryst_subgroup **subgroup_p)
{
    tryst_subgroup_params room;
    uint32_t rank;
    if (!group || !subgroup_params || !subgroup_p)
        return refuse_null(open_call, !group             ? "group"
                                      : !subgroup_params ? "subgroup_params"
                                                         : "subgroup_p");
    const tryst_subgroup_params *params =
        tryst_sized_view(subgroup_params, &room, sizeof room);
    if (!params)
        return refuse(TRYST_E_INVALID, "cannot %s: subgroup_params: %s", open_call,
                      tryst_sized_reason(subgroup_params));
    tryst_status status = group_check(group, open_call);
    if (status == TRYST_OK)
        status = subgroup_members_check(group, params, open_call);
    if (status == TRYST_OK)
        status = rank_find(group, params, &rank);
    if (status != TRYST_OK)
        return status;
    *subgroup_p = subgroup_make(group, params, rank);
    return *subgroup_p ? TRYST_OK : refuse_nomem(open_call);
}

void tryst_subgroup_close(tryst_subgroup *subgroup)
{
    if (!subgroup)
        return;
    coll_kept_drop(subgroup->colls, subgroup);
    subgroup_unref(subgroup);
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
