/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public calls of subgroups (tryst/coll.h).
 *
 * Idea: a subgroup is a list of members and a contracted plan. Its collectives use the
 * peers and steps of the group, under keys that name the epoch and the members (parts.c),
 * so collectives of two subgroups never match. Every rank has the group's plan, so every
 * rank can contract it for any members, and read the order in which these add.
 */
#include <inttypes.h>
#include <string.h>

#include "collectives/tree/contract.h"
#include "collectives/tree/map.h"
#include "commsched/profile/priorities.h"
#include "core/memory/alloc.h"
#include "core/text/hash.h"
#include "core/text/refuse.h"
#include "prepare.h"
#include "rendezvous/coll_op.h"
#include "rendezvous/op/dtype.h"
#include "subgroup.h"
#include "tryst/sized.h"

static const char open_call[] = "open a subgroup";
static const char order_call[] = "read the order of additions";

/* ---- open -------------------------------------------------------------------------- */

/* True if members[at] is not among the members before it. */
static bool is_new(const int32_t *members, uint32_t at)
{
    for (uint32_t i = 0; i < at; i++)
        if (members[i] == members[at])
            return false;
    return true;
}

/* Check that the members are ranks of `group`, each at most once. */
static tryst_status members_check(const tryst_group *group,
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
        status = members_check(group, params, open_call);
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

/* ---- the order of additions -------------------------------------------------------- */

static tryst_status coll_check(const tryst_coll_params *params)
{
    if (params->kind != TRYST_COLL_ALLREDUCE)
        return refuse(TRYST_E_UNSUPPORTED,
                      "cannot %s: kind is %d; only an all-reduce (1) has one", order_call,
                      (int)params->kind);
    if (!dtype_bytes(params->dtype))
        return refuse(TRYST_E_INVALID, "cannot %s: dtype is %d; tryst_dtype lists them",
                      order_call, (int)params->dtype);
    return TRYST_OK;
}

/* Write the range and the parents of a tree: in a contracted plan, children are in the
 * order of their numbers (contract.c), so these are enough. An exchange adds in the order
 * of a star around the first member. */
static tryst_status order_write(const struct coll_plan *plan,
                                const tryst_coll_params *params, uint64_t eager_max,
                                uint32_t tree, tryst_coll_order *order, int32_t *parents)
{
    size_t element_bytes = dtype_bytes(params->dtype);
    uint64_t bytes = coll_bytes(params->count, element_bytes);
    const struct coll_class *class = coll_class_of(plan, bytes);
    bool exchanges = coll_exchanges(plan, class, bytes, eager_max);
    uint32_t trees = exchanges ? 1 : class->trees_count;
    if (tree >= trees)
        return refuse(TRYST_E_INVALID,
                      "cannot %s: tree is %" PRIu32 "; the all-reduce has %" PRIu32
                      " trees",
                      order_call, tree, trees);
    struct coll_range range = {0, params->count};
    if (!exchanges)
        range = coll_range_of(class, tree, params->count, element_bytes);
    const tryst_coll_order own = {
        .trees = trees, .first = range.begin, .count = range.count};
    (void)tryst_sized_write(order, &own, sizeof own);
    for (uint32_t rank = 0; rank < plan->size; rank++)
        parents[rank] = !exchanges ? class->trees[tree].up_parents[rank] : rank ? 0 : -1;
    return TRYST_OK;
}

static tryst_status order_find(tryst_group *group, const tryst_coll_params *params,
                               const tryst_subgroup_params *members, uint32_t tree,
                               tryst_coll_order *order, int32_t *parents)
{
    struct colls *colls = group_colls(group);
    const struct coll_plan *whole = coll_plan_get(colls, group);
    struct coll_plan *plan =
        whole ? coll_plan_contract(whole, members->members, members->count, 0) : NULL;
    tryst_status status =
        plan ? order_write(plan, params, colls->eager_max, tree, order, parents)
             : refuse_nomem(order_call);
    mem_free(plan);
    return status;
}

tryst_status tryst_coll_order_get(tryst_group *group,
                                  const tryst_coll_params *coll_params,
                                  const tryst_subgroup_params *members, uint32_t tree,
                                  tryst_coll_order *order, int32_t *parents)
{
    tryst_coll_params params;
    tryst_subgroup_params of;
    if (!group || !coll_params || !members || !order || !parents)
        return refuse_null(order_call, !group         ? "group"
                                       : !coll_params ? "coll_params"
                                       : !members     ? "members"
                                       : !order       ? "order"
                                                      : "parents");
    if (!tryst_sized_is_set(order))
        return refuse_unsized(order_call, "order");
    if (!tryst_sized_read(&params, sizeof params, coll_params))
        return refuse(TRYST_E_INVALID, "cannot %s: coll_params: %s", order_call,
                      tryst_sized_reason(coll_params));
    if (!tryst_sized_read(&of, sizeof of, members))
        return refuse(TRYST_E_INVALID, "cannot %s: members: %s", order_call,
                      tryst_sized_reason(members));
    tryst_status status = group_check(group, order_call);
    if (status == TRYST_OK)
        status = coll_check(&params);
    if (status == TRYST_OK)
        status = members_check(group, &of, order_call);
    return status == TRYST_OK ? order_find(group, &params, &of, tree, order, parents)
                              : status;
}
