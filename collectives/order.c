/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tryst_coll_order_get (tryst/coll.h): the order of additions of a subgroup's all-reduce,
 * for a process that has all terms and checks the sum bit by bit.
 *
 * Idea: every rank has the group's plan, so every rank can contract it for any members.
 * Only the members' own plans list children; in a contracted plan they are in the order
 * of their numbers (contract.c), so parents and ranges are enough.
 */
#include <inttypes.h>
#include <string.h>

#include "collectives/tree/contract.h"
#include "collectives/tree/map.h"
#include "core/memory/alloc.h"
#include "core/text/refuse.h"
#include "prepare.h"
#include "rendezvous/coll_op.h"
#include "rendezvous/op/dtype.h"
#include "subgroup.h"
#include "tryst/sized.h"

static const char order_call[] = "read the order of additions";

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

static tryst_status order_write(const struct coll_plan *plan,
                                const tryst_coll_params *params, uint32_t tree,
                                tryst_coll_order *order, int32_t *parents)
{
    size_t element_bytes = dtype_bytes(params->dtype);
    const struct coll_class *class =
        coll_class_of(plan, coll_bytes(params->count, element_bytes));
    if (tree >= class->trees_count)
        return refuse(TRYST_E_INVALID,
                      "cannot %s: tree is %" PRIu32 "; the all-reduce has %" PRIu32
                      " trees",
                      order_call, tree, class->trees_count);
    struct coll_range range = coll_range_of(class, tree, params->count, element_bytes);
    const tryst_coll_order own = {
        .trees = class->trees_count, .first = range.begin, .count = range.count};
    (void)tryst_sized_write(order, &own, sizeof own);
    memcpy(parents, class->trees[tree].up_parents, plan->size * sizeof *parents);
    return TRYST_OK;
}

static tryst_status order_find(tryst_group *group, const tryst_coll_params *params,
                               const tryst_subgroup_params *members, uint32_t tree,
                               tryst_coll_order *order, int32_t *parents)
{
    const struct coll_plan *whole = coll_plan_get(group_colls(group), group);
    struct coll_plan *plan =
        whole ? coll_plan_contract(whole, members->members, members->count, 0) : NULL;
    tryst_status status =
        plan ? order_write(plan, params, tree, order, parents) : refuse_nomem(order_call);
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
        status = subgroup_members_check(group, &of, order_call);
    return status == TRYST_OK ? order_find(group, &params, &of, tree, order, parents)
                              : status;
}
