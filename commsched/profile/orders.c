/* SPDX-License-Identifier: Apache-2.0 */
#include "orders.h"

#include <stdlib.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "fusion.h"
#include "step_graph.h"

static tryst_status no_memory(struct err *err)
{
    return err_set(err, TRYST_E_NOMEM, "cannot replay the profile: out of memory");
}

/* ---- operations by the time at which they are ready -------------------------------- */

struct ready {
    double ready_s;
    uint32_t node;
};

static int ready_compare(const void *a, const void *b)
{
    const struct ready *x = a, *y = b;
    if (x->ready_s != y->ready_s)
        return x->ready_s < y->ready_s ? -1 : 1;
    return x->node < y->node ? -1 : x->node > y->node;
}

/* Return the operations [*count_p], sorted by when each would be ready if no operation
 * waited for another. profile->oracle is that of the profile. NULL: out of memory. */
static struct ready *ready_sort(const struct tryst_profile *profile, uint32_t *count_p)
{
    struct ready *list = mem_zalloc_array((size_t)profile->nodes_count + 1, sizeof *list);
    const double *heads = list ? oracle_heads(profile->oracle) : NULL;
    uint32_t count = 0;
    for (uint32_t i = 0; list && i < profile->nodes_count; i++)
        if (profile->nodes[i].is_operation)
            list[count++] = (struct ready){heads[i], i};
    if (list)
        qsort(list, count, sizeof *list, ready_compare);
    *count_p = count;
    return list;
}

/* ---- groups ------------------------------------------------------------------------ */

/* Put the operations into buckets, in the order in which they are ready. */
static tryst_status buckets_open(struct tryst_profile *profile,
                                 const tryst_profile_params *params, struct err *err,
                                 struct joined *joined)
{
    tryst_status status = step_graph_open(profile, params, NULL, false, err, NULL);
    if (status != TRYST_OK)
        return status;
    uint32_t count;
    struct ready *list = ready_sort(profile, &count);
    if (!list || !joined_open(joined, profile)) {
        mem_free(list);
        return no_memory(err);
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t last = joined->count - 1;
        uint64_t full =
            joined->count > 1 ? params->bucket_bytes : params->first_bucket_bytes;
        bool begins = joined->count == 0 || joined->bytes[last] >= (double)full;
        joined_put(joined, profile, list[i].node, begins ? joined->count : last);
    }
    mem_free(list);
    return TRYST_OK;
}

static tryst_status group_refuse(uint32_t node, uint32_t group, uint32_t nodes_count,
                                 struct err *err)
{
    return err_set(err, TRYST_E_INVALID,
                   "cannot replay the profile: the group of operation %u is %u; it must "
                   "be below the number of nodes, %u",
                   node, group, nodes_count);
}

/* Take the caller's groups; numbers may be left out. */
static tryst_status groups_open(const struct tryst_profile *profile,
                                const uint32_t *groups, struct err *err,
                                struct joined *joined)
{
    uint32_t n = profile->nodes_count;
    uint32_t *dense = mem_zalloc_array((size_t)n + 1, sizeof *dense); /* + 1; 0: none */
    tryst_status status = TRYST_OK;
    if (!joined_open(joined, profile) || !dense) {
        mem_free(dense);
        return no_memory(err);
    }
    for (uint32_t i = 0; i < n && status == TRYST_OK; i++) {
        if (!profile->nodes[i].is_operation)
            continue;
        if (groups[i] >= n) {
            status = group_refuse(i, groups[i], n, err);
            break;
        }
        uint32_t *group = &dense[groups[i]];
        if (!*group)
            *group = joined->count + 1;
        joined_put(joined, profile, i, *group - 1);
    }
    mem_free(dense);
    return status;
}

/* ---- replay ------------------------------------------------------------------------ */

/* Make room for the outcome of a replay with `nodes_count` nodes. */
static bool outcome_reserve(struct tryst_profile *profile, size_t nodes_count)
{
    return mem_reserve(&profile->spans, &profile->spans_room, nodes_count + 1,
                       sizeof *profile->spans) &&
           mem_reserve(&profile->pieces, &profile->pieces_room, 2 * (nodes_count + 1),
                       sizeof *profile->pieces);
}

/* Replay profile->oracle. */
static double oracle_run(struct tryst_profile *profile, tryst_profile_order order)
{
    bool by_tail = order == TRYST_PROFILE_PRIORITY || order == TRYST_PROFILE_PREEMPT;
    double seconds =
        oracle_replay(profile->oracle, by_tail ? oracle_tails(profile->oracle) : NULL,
                      order == TRYST_PROFILE_PREEMPT, profile->spans);
    const tryst_profile_piece *pieces =
        oracle_pieces(profile->oracle, &profile->pieces_count);
    memcpy(profile->pieces, pieces, profile->pieces_count * sizeof *pieces);
    return seconds;
}

/* Report a group's times and pieces as those of its operations. */
static void joined_report(struct tryst_profile *profile, const struct joined *joined)
{
    uint32_t n = profile->nodes_count;
    for (uint32_t i = 0; i < n; i++)
        if (profile->nodes[i].is_operation)
            profile->spans[i] = profile->spans[n + joined->of[i]];
    for (uint32_t i = 0; i < profile->pieces_count; i++)
        profile->pieces[i].node = joined->first[profile->pieces[i].node - n];
}

static tryst_status joined_replay(struct tryst_profile *profile,
                                  const tryst_profile_params *params,
                                  const struct joined *joined, struct err *err,
                                  double *seconds_p)
{
    uint32_t cycle;
    if (!outcome_reserve(profile, (size_t)profile->nodes_count + joined->count + 1))
        return no_memory(err);
    tryst_status status = step_graph_open(
        profile, params, joined, params->order == TRYST_PROFILE_BUCKETS, err, &cycle);
    if (status == TRYST_E_INVALID && cycle != ORACLE_NONE)
        return err_set(err, status,
                       "cannot replay the profile with joined operations: one of them "
                       "comes after another one that must not end before it begins");
    if (status != TRYST_OK)
        return status;
    *seconds_p = oracle_run(profile, params->order);
    joined_report(profile, joined);
    return TRYST_OK;
}

static tryst_status plain_replay(struct tryst_profile *profile,
                                 const tryst_profile_params *params, struct err *err,
                                 double *seconds_p)
{
    if (!outcome_reserve(profile, profile->nodes_count))
        return no_memory(err);
    tryst_status status = step_graph_open(profile, params, NULL, false, err, NULL);
    if (status == TRYST_OK)
        *seconds_p = oracle_run(profile, params->order);
    return status;
}

tryst_status orders_replay(struct tryst_profile *profile,
                           const tryst_profile_params *params, struct err *err,
                           double *seconds_p)
{
    struct joined joined = {0};
    tryst_status status;
    if (params->order != TRYST_PROFILE_BUCKETS && !params->groups)
        return plain_replay(profile, params, err, seconds_p);
    if (params->groups)
        status = groups_open(profile, params->groups, err, &joined);
    else
        status = buckets_open(profile, params, err, &joined);
    if (status == TRYST_OK)
        status = joined_replay(profile, params, &joined, err, seconds_p);
    joined_close(&joined);
    return status;
}

/* ---- fusion ------------------------------------------------------------------------ */

/* Plan groups for the operations in `list`, and write them to `groups`. */
static bool list_fuse(const struct tryst_profile *profile,
                      const tryst_profile_params *params, const struct ready *list,
                      uint32_t count, uint32_t *groups, uint32_t *count_p)
{
    const double *tails = oracle_tails(profile->oracle);
    struct fusion_item *items = mem_zalloc_array((size_t)count + 1, sizeof *items);
    if (!items)
        return false;
    for (uint32_t i = 0; i < count; i++)
        items[i] = (struct fusion_item){
            .ready_s = list[i].ready_s,
            .tail_s = tails[list[i].node],
            .seconds = (double)profile->nodes[list[i].node].bytes / params->bytes_per_s};
    if (count > 0)
        fusion_plan(items, count, params->overhead_s);
    *count_p = 0;
    for (uint32_t i = 0; i < count; ++*count_p)
        for (uint32_t last = items[i].last; i <= last; i++)
            groups[list[i].node] = *count_p;
    mem_free(items);
    return true;
}

/* Leave each operation alone if that is shorter, or if the groups are not possible: the
 * plan is exact for chains only. */
static tryst_status joins_check(struct tryst_profile *profile,
                                const tryst_profile_params *params,
                                const struct ready *list, uint32_t count,
                                uint32_t *groups, uint32_t *count_p)
{
    struct err err = ERR_INIT; /* of groups that are not possible: of no interest */
    tryst_profile_params with = *params;
    double alone_s = 0, joined_s = 0;
    with.order = TRYST_PROFILE_PREEMPT;
    with.groups = NULL;
    tryst_status status = orders_replay(profile, &with, &err, &alone_s);
    if (status != TRYST_OK)
        return status;
    with.groups = groups;
    status = orders_replay(profile, &with, &err, &joined_s);
    if (status == TRYST_E_NOMEM || (status == TRYST_OK && joined_s <= alone_s))
        return status;
    for (uint32_t i = 0; i < count; i++)
        groups[list[i].node] = i;
    *count_p = count;
    return TRYST_OK;
}

tryst_status orders_fuse(struct tryst_profile *profile,
                         const tryst_profile_params *params, struct err *err,
                         uint32_t *groups, uint32_t *count_p)
{
    tryst_status status = step_graph_open(profile, params, NULL, false, err, NULL);
    if (status != TRYST_OK)
        return status;
    uint32_t count;
    struct ready *list = ready_sort(profile, &count);
    for (uint32_t i = 0; i < profile->nodes_count; i++)
        groups[i] = UINT32_MAX;
    if (!list || !list_fuse(profile, params, list, count, groups, count_p))
        status = no_memory(err);
    if (status == TRYST_OK &&
        joins_check(profile, params, list, count, groups, count_p) != TRYST_OK)
        status = no_memory(err);
    mem_free(list);
    return status;
}
