/* SPDX-License-Identifier: Apache-2.0 */
/* Orders of operations. With buckets, the graph of the oracle has these nodes:
 *
 *      0 … n-1        those of the profile; operations take no time
 *      n … n+b-1      the buckets: operations, behind what their members come after
 *      n+b            the end of all buckets, before each operation of the profile
 *
 * So whatever needs an operation begins when all buckets have ended. */
#include "orders.h"

#include <stdlib.h>
#include <string.h>

#include "core/memory/alloc.h"

/* ---- graphs for the oracle --------------------------------------------------------- */

struct graph {
    uint32_t nodes_count, edges_count;
    struct oracle_node *nodes;
    struct oracle_edge *edges;
};

static bool graph_open(struct graph *graph, size_t nodes_count, size_t edges_count)
{
    graph->nodes = mem_zalloc_array(nodes_count + 1, sizeof *graph->nodes);
    graph->edges = mem_zalloc_array(edges_count + 1, sizeof *graph->edges);
    graph->nodes_count = (uint32_t)nodes_count;
    return graph->nodes && graph->edges && nodes_count < UINT32_MAX &&
           edges_count < UINT32_MAX;
}

static void graph_close(struct graph *graph)
{
    mem_free(graph->nodes);
    mem_free(graph->edges);
}

static void edge_add(struct graph *graph, uint32_t from, uint32_t to)
{
    graph->edges[graph->edges_count++] = (struct oracle_edge){from, to};
}

static struct oracle_node operation(double bytes, const tryst_profile_params *params)
{
    return (struct oracle_node){true, bytes / params->bytes_per_s, params->latency_s};
}

static void graph_fill(struct graph *graph, const struct tryst_profile *profile,
                       const tryst_profile_params *params)
{
    for (uint32_t i = 0; i < profile->nodes_count; i++) {
        const struct profile_node *node = &profile->nodes[i];
        graph->nodes[i] = node->is_operation
                              ? operation((double)node->bytes, params)
                              : (struct oracle_node){false, node->seconds, 0};
        for (uint32_t a = 0; a < node->after_count; a++)
            edge_add(graph, profile->after[node->after_first + a], i);
    }
}

static tryst_status no_memory(struct err *err)
{
    return err_set(err, TRYST_E_NOMEM, "cannot replay the profile: out of memory");
}

static tryst_status oracle_replace(struct tryst_profile *profile,
                                   const struct graph *graph, struct err *err,
                                   uint32_t *cycle_p)
{
    oracle_close(profile->oracle);
    profile->oracle = NULL;
    return oracle_open(graph->nodes, graph->nodes_count, graph->edges, graph->edges_count,
                       err, cycle_p, &profile->oracle);
}

static tryst_status plain_open(struct tryst_profile *profile,
                               const tryst_profile_params *params, struct err *err,
                               uint32_t *cycle_p)
{
    struct graph graph = {0};
    tryst_status status;
    if (graph_open(&graph, profile->nodes_count, profile->after_count)) {
        graph_fill(&graph, profile, params);
        status = oracle_replace(profile, &graph, err, cycle_p);
    } else {
        status = no_memory(err);
    }
    graph_close(&graph);
    return status;
}

tryst_status orders_cycle_find(struct tryst_profile *profile, struct err *err,
                               uint32_t *index_p)
{
    static const tryst_profile_params any = {.bytes_per_s = 1};
    return plain_open(profile, &any, err, index_p);
}

tryst_status orders_oracle_open(struct tryst_profile *profile,
                                const tryst_profile_params *params, struct err *err)
{
    return plain_open(profile, params, err, NULL);
}

/* ---- buckets ----------------------------------------------------------------------- */

struct member {
    double ready_s;
    uint32_t node;
};

struct buckets {
    struct member *members; /* the operations, in the order in which they are ready */
    uint32_t members_count, count;
    uint32_t *of;    /* [nodes]: the bucket of an operation */
    uint32_t *first; /* [count]: its first operation */
    double *bytes;   /* [count] */
};

static int member_compare(const void *a, const void *b)
{
    const struct member *x = a, *y = b;
    if (x->ready_s != y->ready_s)
        return x->ready_s < y->ready_s ? -1 : 1;
    return x->node < y->node ? -1 : x->node > y->node;
}

static void buckets_close(struct buckets *buckets)
{
    mem_free(buckets->members);
    mem_free(buckets->of);
    mem_free(buckets->first);
    mem_free(buckets->bytes);
}

/* Put the operations into buckets, by the times at which they were ready in the last
 * replay. */
static bool buckets_open(struct buckets *buckets, const struct tryst_profile *profile,
                         const tryst_profile_params *params)
{
    size_t n = (size_t)profile->nodes_count + 1;
    buckets->members = mem_zalloc_array(n, sizeof *buckets->members);
    buckets->of = mem_zalloc_array(n, sizeof *buckets->of);
    buckets->first = mem_zalloc_array(n, sizeof *buckets->first);
    buckets->bytes = mem_zalloc_array(n, sizeof *buckets->bytes);
    if (!buckets->members || !buckets->of || !buckets->first || !buckets->bytes)
        return false;
    for (uint32_t i = 0; i < profile->nodes_count; i++)
        if (profile->nodes[i].is_operation)
            buckets->members[buckets->members_count++] =
                (struct member){profile->spans[i].ready_s, i};
    qsort(buckets->members, buckets->members_count, sizeof *buckets->members,
          member_compare);
    bool full = true;
    for (uint32_t i = 0; i < buckets->members_count; i++) {
        uint32_t node = buckets->members[i].node;
        if (full)
            buckets->first[buckets->count++] = node;
        uint32_t last = buckets->count - 1;
        buckets->of[node] = last;
        buckets->bytes[last] += (double)profile->nodes[node].bytes;
        full = buckets->bytes[last] >=
               (double)(last > 0 ? params->bucket_bytes : params->first_bucket_bytes);
    }
    return true;
}

static void buckets_fill(struct graph *graph, const struct buckets *buckets,
                         const struct tryst_profile *profile,
                         const tryst_profile_params *params)
{
    uint32_t n = profile->nodes_count, end = n + buckets->count;
    for (uint32_t i = 0; i < n; i++) {
        const struct profile_node *node = &profile->nodes[i];
        graph->nodes[i].seconds = node->seconds; /* 0 of an operation */
        uint32_t to = node->is_operation ? n + buckets->of[i] : i;
        for (uint32_t a = 0; a < node->after_count; a++)
            edge_add(graph, profile->after[node->after_first + a], to);
        if (node->is_operation)
            edge_add(graph, end, i);
    }
    for (uint32_t b = 0; b < buckets->count; b++) {
        graph->nodes[n + b] = operation(buckets->bytes[b], params);
        edge_add(graph, n + b, end);
    }
}

/* ---- replay ------------------------------------------------------------------------ */

/* Make room for the outcome of a replay with `nodes_count` nodes. */
static bool outcome_reserve(struct tryst_profile *profile, uint32_t nodes_count)
{
    size_t n = (size_t)nodes_count + 1;
    return mem_reserve(&profile->spans, &profile->spans_room, n,
                       sizeof *profile->spans) &&
           mem_reserve(&profile->pieces, &profile->pieces_room, 2 * n,
                       sizeof *profile->pieces);
}

static double oracle_run(struct tryst_profile *profile, const double *urgency,
                         bool interrupts)
{
    double seconds = oracle_replay(profile->oracle, urgency, interrupts, profile->spans);
    const tryst_profile_piece *pieces =
        oracle_pieces(profile->oracle, &profile->pieces_count);
    memcpy(profile->pieces, pieces, profile->pieces_count * sizeof *pieces);
    return seconds;
}

/* Report a bucket's times and pieces as those of its operations. */
static void buckets_report(struct tryst_profile *profile, const struct buckets *buckets)
{
    uint32_t n = profile->nodes_count;
    for (uint32_t i = 0; i < n; i++)
        if (profile->nodes[i].is_operation)
            profile->spans[i] = profile->spans[n + buckets->of[i]];
    for (uint32_t i = 0; i < profile->pieces_count; i++)
        profile->pieces[i].node = buckets->first[profile->pieces[i].node - n];
}

static tryst_status buckets_replay(struct tryst_profile *profile,
                                   const struct buckets *buckets,
                                   const tryst_profile_params *params, struct err *err,
                                   double *seconds_p)
{
    struct graph graph = {0};
    size_t nodes_count = (size_t)profile->nodes_count + buckets->count + 1;
    size_t edges_count =
        (size_t)profile->after_count + buckets->members_count + buckets->count;
    tryst_status status = TRYST_OK;
    if (!graph_open(&graph, nodes_count, edges_count) ||
        !outcome_reserve(profile, graph.nodes_count))
        status = no_memory(err);
    if (status == TRYST_OK) {
        uint32_t cycle;
        buckets_fill(&graph, buckets, profile, params);
        status = oracle_replace(profile, &graph, err, &cycle);
        if (status == TRYST_E_INVALID && cycle != ORACLE_NONE)
            err_set(err, status,
                    "cannot replay the profile in buckets: an operation comes after "
                    "another one, so all buckets cannot end before it begins");
    }
    graph_close(&graph);
    if (status != TRYST_OK)
        return status;
    *seconds_p = oracle_run(profile, NULL, false);
    buckets_report(profile, buckets);
    return TRYST_OK;
}

tryst_status orders_replay(struct tryst_profile *profile,
                           const tryst_profile_params *params, struct err *err,
                           double *seconds_p)
{
    tryst_status status = plain_open(profile, params, err, NULL);
    if (status != TRYST_OK)
        return status;
    if (!outcome_reserve(profile, profile->nodes_count))
        return no_memory(err);
    bool by_tail =
        params->order == TRYST_PROFILE_PRIORITY || params->order == TRYST_PROFILE_PREEMPT;
    *seconds_p = oracle_run(profile, by_tail ? oracle_tails(profile->oracle) : NULL,
                            params->order == TRYST_PROFILE_PREEMPT);
    if (params->order != TRYST_PROFILE_BUCKETS)
        return TRYST_OK;
    struct buckets buckets = {0};
    status = buckets_open(&buckets, profile, params)
                 ? buckets_replay(profile, &buckets, params, err, seconds_p)
                 : no_memory(err);
    buckets_close(&buckets);
    return status;
}
