/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Minimum-cost arborescences: contraction along a growing path (see arborescence.h).
 *
 * One idea: each live node (a vertex, or a contracted cycle) holds a slot. For each slot,
 * `in` has a row with the cost of the cheapest edge from every other slot, less the costs
 * that edges inside the slot's node have already paid. A path grows backwards by the
 * cheapest edge into its last slot; when the path meets itself, that cycle becomes one
 * node. A contraction of k slots costs O(k n), all of them O(n²).
 * Invariant: after a success `nodes_count` nodes form a tree; its leaves are the
 * vertices, its top is the last node. Each node except the top holds the edge that enters
 * it within its cycle. Of equally cheap edges into a slot, the one from the lowest slot
 * is taken.
 */
#include "arborescence.h"

#include <assert.h>
#include <math.h>

#include "core/memory/arrays.h"

#define NONE UINT32_MAX

struct edge {
    uint32_t from, to; /* vertices */
};

struct node {
    uint32_t parent;            /* the node that contains this one; NONE at the top */
    uint32_t first, kids_count; /* the range of `kids` that this node contains */
    struct edge edge;           /* the cheapest edge that enters this node */
    double reduced;             /* cost of `edge` less the costs paid inside this node */
};

struct arborescence {
    struct arrays arrays;
    uint32_t count, nodes_count, kids_count;
    const double *cost;
    bool reversed;
    double *in; /* [to slot × count + from slot]: reduced cost of the cheapest edge */
    struct edge *edge; /* [to slot × count + from slot]: that cheapest edge */
    struct node *nodes;
    uint32_t *kids;      /* node numbers */
    uint32_t *slot_node; /* slot → node; NONE: the slot was contracted away */
    /* The slots on the growing path; slot → position in `path`, or NONE. */
    uint32_t *path, *where;
    double paid; /* sum of `reduced` over all nodes except the top */
    /* The work of arborescence_tree: the nodes from `vertex` up to below `stop` must be
     * expanded. */
    struct {
        uint32_t vertex, stop;
    } * stack;
};

void arborescence_close(struct arborescence *a)
{
    if (!a)
        return;
    arrays_free(&a->arrays);
    mem_free(a);
}

tryst_status arborescence_open(uint32_t count, struct arborescence **arborescence_p)
{
    size_t n = count;
    struct arborescence *a = mem_zalloc(sizeof *a);
    if (!a)
        return TRYST_E_NOMEM;
    a->count = count;
    a->in = arrays_alloc(&a->arrays, n * n, sizeof *a->in);
    a->edge = arrays_alloc(&a->arrays, n * n, sizeof *a->edge);
    a->nodes = arrays_alloc(&a->arrays, 2 * n, sizeof *a->nodes);
    a->kids = arrays_alloc(&a->arrays, 2 * n, sizeof *a->kids);
    a->slot_node = arrays_alloc(&a->arrays, n, sizeof *a->slot_node);
    a->path = arrays_alloc(&a->arrays, n, sizeof *a->path);
    a->where = arrays_alloc(&a->arrays, n, sizeof *a->where);
    a->stack = arrays_alloc(&a->arrays, 2 * n, sizeof *a->stack);
    if (a->arrays.status) {
        arborescence_close(a);
        return TRYST_E_NOMEM;
    }
    *arborescence_p = a;
    return TRYST_OK;
}

static double edge_cost(const struct arborescence *a, struct edge edge)
{
    size_t n = a->count;
    return a->reversed ? a->cost[edge.to * n + edge.from]
                       : a->cost[edge.from * n + edge.to];
}

static void matrix_fill(struct arborescence *a)
{
    uint32_t n = a->count;
    for (uint32_t to = 0; to < n; to++)
        for (uint32_t from = 0; from < n; from++) {
            struct edge edge = {from, to};
            size_t at = (size_t)to * n + from;
            a->in[at] = from == to ? INFINITY : edge_cost(a, edge);
            a->edge[at] = edge;
        }
}

static void nodes_reset(struct arborescence *a)
{
    a->nodes_count = a->count;
    a->kids_count = 0;
    a->paid = 0;
    for (uint32_t i = 0; i < a->count; i++) {
        a->nodes[i] = (struct node){.parent = NONE};
        a->slot_node[i] = i;
        a->where[i] = NONE;
    }
}

/* Find the slot from which the cheapest edge enters `slot`; NONE if no edge does. */
static uint32_t cheapest(const struct arborescence *a, uint32_t slot)
{
    const double *row = a->in + (size_t)slot * a->count;
    double least = INFINITY;
    uint32_t from = NONE;
    for (uint32_t i = 0; i < a->count; i++)
        if (row[i] < least) {
            least = row[i];
            from = i;
        }
    return from;
}

/* Set the row of cycle[0] to the cheapest edges into any slot of the cycle, reduced by
 * that slot's cheapest edge. */
static void cycle_entries(struct arborescence *a, const uint32_t *cycle, uint32_t length)
{
    size_t n = a->count;
    double *into = a->in + cycle[0] * n;
    struct edge *edge = a->edge + cycle[0] * n;
    double paid = a->nodes[a->slot_node[cycle[0]]].reduced;
    for (size_t from = 0; from < n; from++)
        into[from] -= paid;
    for (uint32_t k = 1; k < length; k++) {
        const double *row = a->in + cycle[k] * n;
        const struct edge *edges = a->edge + cycle[k] * n;
        paid = a->nodes[a->slot_node[cycle[k]]].reduced;
        for (size_t from = 0; from < n; from++)
            if (row[from] - paid < into[from]) {
                into[from] = row[from] - paid;
                edge[from] = edges[from];
            }
    }
    for (uint32_t k = 0; k < length; k++)
        into[cycle[k]] = INFINITY;
}

/* Set the column of cycle[0] to the cheapest edges out of any slot of the cycle, and the
 * columns of its other slots to INFINITY. */
static void cycle_exits(struct arborescence *a, const uint32_t *cycle, uint32_t length)
{
    size_t n = a->count;
    for (uint32_t to = 0; to < n; to++) {
        if (a->slot_node[to] == NONE)
            continue;
        double *row = a->in + to * n;
        struct edge *edges = a->edge + to * n;
        for (uint32_t k = 1; k < length; k++) {
            if (row[cycle[k]] < row[cycle[0]]) {
                row[cycle[0]] = row[cycle[k]];
                edges[cycle[0]] = edges[cycle[k]];
            }
            row[cycle[k]] = INFINITY;
        }
    }
    a->in[cycle[0] * n + cycle[0]] = INFINITY;
}

/* Contract the `length` last slots of the path into one node in the slot cycle[0]. */
static void cycle_contract(struct arborescence *a, const uint32_t *cycle, uint32_t length)
{
    uint32_t made = a->nodes_count++;
    struct node *node = &a->nodes[made];
    *node = (struct node){.parent = NONE, .first = a->kids_count, .kids_count = length};
    cycle_entries(a, cycle, length);
    for (uint32_t k = 0; k < length; k++) {
        uint32_t kid = a->slot_node[cycle[k]];
        a->kids[a->kids_count++] = kid;
        a->nodes[kid].parent = made;
        a->paid += a->nodes[kid].reduced;
        a->slot_node[cycle[k]] = NONE;
        a->where[cycle[k]] = NONE;
    }
    a->slot_node[cycle[0]] = made;
    cycle_exits(a, cycle, length);
}

bool arborescence_contract(struct arborescence *a, const double *cost, bool reversed)
{
    uint32_t live = a->count, length = 0;
    a->cost = cost;
    a->reversed = reversed;
    matrix_fill(a);
    nodes_reset(a);
    a->path[length] = 0;
    a->where[0] = length++;
    while (live > 1) {
        uint32_t top = a->path[length - 1];
        uint32_t from = cheapest(a, top);
        if (from == NONE)
            return false;
        size_t at = (size_t)top * a->count + from;
        a->nodes[a->slot_node[top]].edge = a->edge[at];
        a->nodes[a->slot_node[top]].reduced = a->in[at];
        uint32_t first = a->where[from];
        if (first == NONE) {
            a->path[length] = from;
            a->where[from] = length++;
            continue;
        }
        cycle_contract(a, a->path + first, length - first);
        live -= length - first - 1;
        length = first + 1;
        a->where[a->path[first]] = first;
    }
    return true;
}

double arborescence_cost(const struct arborescence *a, uint32_t root)
{
    double cost = a->paid;
    for (uint32_t node = root; a->nodes[node].parent != NONE;
         node = a->nodes[node].parent)
        cost -= a->nodes[node].reduced;
    return cost;
}

double arborescence_tree(struct arborescence *a, uint32_t root, uint32_t *parent_p)
{
    double cost = 0;
    uint32_t depth = 0;
    assert(root < a->count);
    parent_p[root] = NONE;
    a->stack[depth].vertex = root;
    a->stack[depth++].stop = a->nodes_count - 1;
    while (depth > 0) {
        depth--;
        uint32_t stop = a->stack[depth].stop;
        for (uint32_t at = a->stack[depth].vertex; at != stop; at = a->nodes[at].parent) {
            const struct node *up = &a->nodes[a->nodes[at].parent];
            for (uint32_t k = 0; k < up->kids_count; k++) {
                uint32_t kid = a->kids[up->first + k];
                if (kid == at)
                    continue;
                struct edge edge = a->nodes[kid].edge;
                parent_p[edge.to] = edge.from;
                cost += edge_cost(a, edge);
                a->stack[depth].vertex = edge.to;
                a->stack[depth++].stop = kid;
            }
        }
    }
    return cost;
}
