/* SPDX-License-Identifier: Apache-2.0 */
/* Implements order_graph.h. In buckets the nodes are
 *
 *      0 … n-1     those of the profile; an operation is an action that takes no time
 *      n … n+b-1   the buckets
 *      n+b         the end of all buckets, before each operation of the profile
 *
 * as in commsched/profile/orders.c. Which operations share a bucket is read from the
 * library's replay: they are ready, and end, at the same times. */
#include "order_graph.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct edge {
    uint32_t from, to;
};

struct draft {
    tryst_profile *profile;
    uint32_t profile_count;
    struct order_graph graph;
    struct edge *edges;
    size_t edges_count;
    struct rank_of { /* operations, sorted */
        double key, second;
        uint32_t node;
    } * operations;
    uint32_t operations_count;
};

static uint64_t elements_of(uint64_t bytes)
{
    return (bytes + sizeof(float) - 1) / sizeof(float);
}

static void edge_add(struct draft *draft, uint32_t from, uint32_t to)
{
    draft->edges[draft->edges_count++] = (struct edge){from, to};
}

static int by_key(const void *a, const void *b)
{
    const struct rank_of *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    if (x->second != y->second)
        return x->second < y->second ? -1 : 1;
    return (x->node > y->node) - (x->node < y->node);
}

static bool draft_open(struct draft *draft)
{
    size_t n = draft->profile_count, edges = 2 * n + 1;
    for (uint32_t i = 0; i < draft->profile_count; i++)
        edges += order_node(draft->profile, i).after_count;
    /* a bucket for each operation at most, and the end of all */
    draft->graph.nodes = calloc(2 * n + 1, sizeof *draft->graph.nodes);
    draft->graph.next = calloc(edges, sizeof *draft->graph.next);
    draft->edges = calloc(edges, sizeof *draft->edges);
    draft->operations = calloc(n + 1, sizeof *draft->operations);
    if (!draft->graph.nodes || !draft->graph.next || !draft->edges || !draft->operations)
        return false;
    for (uint32_t i = 0; i < draft->profile_count; i++)
        if (order_node(draft->profile, i).is_operation)
            draft->operations[draft->operations_count++].node = i;
    return true;
}

static void draft_close(struct draft *draft)
{
    free(draft->edges);
    free(draft->operations);
}

/* Fill each node's list of those that come after it. */
static void edges_take(struct draft *draft)
{
    struct order_graph *graph = &draft->graph;
    uint32_t first = 0;
    for (size_t e = 0; e < draft->edges_count; e++)
        graph->nodes[draft->edges[e].from].next_count++;
    for (uint32_t i = 0; i < graph->count; i++) {
        graph->nodes[i].next_first = first;
        first += graph->nodes[i].next_count;
        graph->nodes[i].next_count = 0;
    }
    for (size_t e = 0; e < draft->edges_count; e++) {
        struct order_graph_node *from = &graph->nodes[draft->edges[e].from];
        graph->next[from->next_first + from->next_count++] = draft->edges[e].to;
        graph->nodes[draft->edges[e].to].before_count++;
    }
}

static void operation_set(struct order_graph *graph, uint32_t index, uint64_t count)
{
    struct order_graph_node *node = &graph->nodes[index];
    node->is_operation = true;
    node->count += count;
    graph->elements += count;
}

static void offsets_set(struct order_graph *graph)
{
    uint64_t offset = 0;
    for (uint32_t i = 0; i < graph->count; i++) {
        graph->nodes[i].offset = offset;
        offset += graph->nodes[i].count;
    }
}

/* ---- the profile ------------------------------------------------------------------- */

static void profile_fill(struct draft *draft)
{
    draft->graph.count = draft->profile_count;
    for (uint32_t i = 0; i < draft->profile_count; i++) {
        tryst_profile_node node = order_node(draft->profile, i);
        if (node.is_operation) {
            operation_set(&draft->graph, i, elements_of(node.bytes));
            draft->graph.nodes[i].origin = i;
        } else
            draft->graph.nodes[i].ns = (uint64_t)llround(node.seconds * 1e9);
        for (uint32_t a = 0; a < node.after_count; a++)
            edge_add(draft, node.after[a], i);
    }
}

/* Number the operations by their tails: the longest is 0. */
static tryst_status priorities_set(struct draft *draft,
                                   const tryst_profile_params *params)
{
    double *tails = calloc((size_t)draft->profile_count + 1, sizeof *tails);
    tryst_status status =
        tails ? tryst_profile_tails(draft->profile, params, tails) : TRYST_E_NOMEM;
    if (status == TRYST_OK) {
        for (uint32_t i = 0; i < draft->operations_count; i++)
            draft->operations[i].key = -tails[draft->operations[i].node];
        qsort(draft->operations, draft->operations_count, sizeof *draft->operations,
              by_key);
        for (uint32_t i = 0; i < draft->operations_count; i++)
            draft->graph.nodes[draft->operations[i].node].priority = (int32_t)i;
    }
    free(tails);
    return status;
}

static void bare_fill(struct draft *draft)
{
    draft->graph.count = draft->operations_count;
    for (uint32_t i = 0; i < draft->operations_count; i++)
        operation_set(
            &draft->graph, i,
            elements_of(order_node(draft->profile, draft->operations[i].node).bytes));
}

/* ---- buckets ----------------------------------------------------------------------- */

static void action_fill(struct draft *draft, uint32_t index, uint32_t to)
{
    tryst_profile_node node = order_node(draft->profile, index);
    if (!node.is_operation)
        draft->graph.nodes[index].ns = (uint64_t)llround(node.seconds * 1e9);
    for (uint32_t a = 0; a < node.after_count; a++)
        edge_add(draft, node.after[a], to);
}

static tryst_status buckets_fill(struct draft *draft, const tryst_profile_params *params)
{
    tryst_profile_params with = *params;
    tryst_profile_replayed replayed = {.struct_size = sizeof replayed};
    struct order_graph *graph = &draft->graph;
    uint32_t n = draft->profile_count, buckets = 0;
    with.order = TRYST_PROFILE_BUCKETS;
    tryst_status status = tryst_profile_replay(draft->profile, &with, &replayed);
    if (status != TRYST_OK)
        return status;
    for (uint32_t i = 0; i < draft->operations_count; i++) {
        const tryst_profile_span *span = &replayed.spans[draft->operations[i].node];
        draft->operations[i].key = span->end_s;
        draft->operations[i].second = span->ready_s;
    }
    qsort(draft->operations, draft->operations_count, sizeof *draft->operations, by_key);
    for (uint32_t i = 0; i < draft->operations_count; i++) {
        const struct rank_of *operation = &draft->operations[i];
        if (i == 0 || operation->key != operation[-1].key ||
            operation->second != operation[-1].second)
            graph->nodes[n + buckets++].origin = operation->node;
        uint32_t bucket = n + buckets - 1;
        operation_set(graph, bucket,
                      elements_of(order_node(draft->profile, operation->node).bytes));
        action_fill(draft, operation->node, bucket);
    }
    uint32_t end = n + buckets;
    graph->count = end + 1;
    for (uint32_t b = n; b < end; b++)
        edge_add(draft, b, end);
    for (uint32_t i = 0; i < n; i++)
        if (order_node(draft->profile, i).is_operation)
            edge_add(draft, end, i);
        else
            action_fill(draft, i, i);
    return TRYST_OK;
}

/* ---- open and close ---------------------------------------------------------------- */

tryst_status order_graph_open(tryst_profile *profile, enum order_graph_kind kind,
                              const tryst_profile_params *params,
                              struct order_graph *graph_p)
{
    struct draft draft = {.profile = profile,
                          .profile_count = tryst_profile_nodes(profile)};
    tryst_status status = draft_open(&draft) ? TRYST_OK : TRYST_E_NOMEM;
    if (status == TRYST_OK && kind == ORDER_GRAPH_BUCKETS)
        status = buckets_fill(&draft, params);
    else if (status == TRYST_OK && kind == ORDER_GRAPH_BARE)
        bare_fill(&draft);
    else if (status == TRYST_OK) {
        profile_fill(&draft);
        status = priorities_set(&draft, params);
    }
    if (status == TRYST_OK) {
        edges_take(&draft);
        offsets_set(&draft.graph);
        *graph_p = draft.graph;
    } else {
        order_graph_close(&draft.graph);
    }
    draft_close(&draft);
    return status;
}

void order_graph_close(struct order_graph *graph)
{
    free(graph->nodes);
    free(graph->next);
    *graph = (struct order_graph){.nodes = NULL};
}
