/* SPDX-License-Identifier: Apache-2.0 */
/* The oracle: a discrete-event replay of a graph of actions and operations.
 *
 * One idea: an action ends a known time after it is ready, and the wire ends operations
 * in the order that it serves them, so time moves from one end to the next. A result is
 * exact but for rounding, and the same in each run.
 *
 * An operation takes at most one piece of the wire more than there are ends of nodes, so
 * pieces have room for twice the nodes. */
#include "oracle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- heap -------------------------------------------------------------------------- */

/* A binary heap of nodes: the smallest key first, of equal ones the lowest node. */
struct heap {
    struct entry {
        double key;
        uint32_t node;
    } * entries; /* [nodes] */
    uint32_t count;
};

static bool is_before(const struct entry *a, const struct entry *b)
{
    return a->key < b->key || (a->key == b->key && a->node < b->node);
}

static void heap_push(struct heap *heap, double key, uint32_t node)
{
    struct entry entry = {key, node};
    uint32_t at = heap->count++;
    for (; at > 0 && is_before(&entry, &heap->entries[(at - 1) / 2]); at = (at - 1) / 2)
        heap->entries[at] = heap->entries[(at - 1) / 2];
    heap->entries[at] = entry;
}

static struct entry heap_pop(struct heap *heap)
{
    struct entry first = heap->entries[0];
    struct entry last = heap->entries[--heap->count];
    uint32_t at = 0;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child + 1 < heap->count &&
            is_before(&heap->entries[child + 1], &heap->entries[child]))
            child++;
        if (child >= heap->count || !is_before(&heap->entries[child], &last))
            break;
        heap->entries[at] = heap->entries[child];
        at = child;
    }
    heap->entries[at] = last;
    return first;
}

/* ---- wire -------------------------------------------------------------------------- */

/* One serial resource that serves operations by urgency. Between two moments at which an
 * operation becomes ready the wire serves the most urgent one, and the next ones as it
 * ends. So the oracle moves time forward to its next moment, and gets each operation that
 * ends before.
 * Invariant: an operation that has bytes left is being served, or is in the heap. */
struct wire {
    const double *urgency; /* [nodes]; NULL: the order of wire_add */
    bool interrupts;
    double now_s;
    double *left_s; /* [nodes]: time on the wire that is left */
    struct heap waiting;
    uint32_t served; /* ORACLE_NONE: the wire is idle */
    struct oracle_piece *pieces;
    uint32_t pieces_count;
};

static void wire_reset(struct wire *wire, const double *urgency, bool interrupts)
{
    wire->urgency = urgency;
    wire->interrupts = interrupts;
    wire->now_s = 0;
    wire->waiting.count = 0;
    wire->served = ORACLE_NONE;
    wire->pieces_count = 0;
}

static double key_of(const struct wire *wire, uint32_t node)
{
    return wire->urgency ? -wire->urgency[node] : wire->now_s;
}

/* Note that the operation is ready now. */
static void wire_add(struct wire *wire, uint32_t node)
{
    heap_push(&wire->waiting, key_of(wire, node), node);
}

/* Serve the most urgent operation; without `interrupts`, one that is being served goes
 * on. */
static void choose(struct wire *wire)
{
    if (wire->waiting.count == 0)
        return;
    if (wire->served != ORACLE_NONE) {
        struct entry served = {key_of(wire, wire->served), wire->served};
        if (!wire->interrupts || !wire->urgency ||
            !is_before(&wire->waiting.entries[0], &served))
            return;
        heap_push(&wire->waiting, served.key, served.node);
    }
    wire->served = heap_pop(&wire->waiting).node;
}

static void piece_add(struct wire *wire, double to_s)
{
    struct oracle_piece *last = wire->pieces + wire->pieces_count;
    if (to_s <= wire->now_s)
        return;
    if (wire->pieces_count > 0 && last[-1].node == wire->served &&
        last[-1].to_s == wire->now_s) {
        last[-1].to_s = to_s;
        return;
    }
    *last = (struct oracle_piece){wire->served, wire->now_s, to_s};
    wire->pieces_count++;
}

/* Move time forward to `until_s`, or to the end of the operation that is served, if it
 * ends no later. Returns the operation that has ended, ORACLE_NONE: none. */
static uint32_t wire_advance(struct wire *wire, double until_s)
{
    choose(wire);
    uint32_t served = wire->served;
    if (served == ORACLE_NONE || wire->now_s + wire->left_s[served] > until_s) {
        if (served != ORACLE_NONE) {
            piece_add(wire, until_s);
            wire->left_s[served] -= until_s - wire->now_s;
        }
        wire->now_s = until_s;
        return ORACLE_NONE;
    }
    piece_add(wire, wire->now_s + wire->left_s[served]);
    wire->now_s += wire->left_s[served];
    wire->left_s[served] = 0;
    wire->served = ORACLE_NONE;
    return served;
}

/* ---- graph ------------------------------------------------------------------------- */

struct oracle {
    struct order_graph graph;
    double latency_s;
    double *seconds;  /* [nodes]: duration, or time on the wire */
    uint32_t *sorted; /* [nodes]: each node after those that it comes after */
    double *tails;    /* [nodes] */
    /* of a replay: */
    uint32_t *awaited; /* [nodes]: number of nodes before that have not ended */
    double *ready_s;   /* [nodes] */
    struct heap ends;
    struct wire wire;
    struct oracle_span *spans;
    double last_s;
};

static const uint32_t *next_of(const struct oracle *oracle, uint32_t node,
                               uint32_t *count_p)
{
    *count_p = oracle->graph.nodes[node].next_count;
    return oracle->graph.next + oracle->graph.nodes[node].next_first;
}

/* Return the time from the last byte of an operation to its end; 0: an action. */
static double latency_of(const struct oracle *oracle, uint32_t node)
{
    return oracle->graph.nodes[node].is_operation ? oracle->latency_s : 0;
}

/* Sort the nodes (Kahn 1962): a node of a cycle never has all nodes before it sorted.
 * False: there is a cycle. */
static bool nodes_sort(struct oracle *oracle)
{
    uint32_t sorted = 0, count;
    for (uint32_t i = 0; i < oracle->graph.count; i++) {
        oracle->awaited[i] = oracle->graph.nodes[i].before_count;
        if (oracle->awaited[i] == 0)
            oracle->sorted[sorted++] = i;
    }
    for (uint32_t at = 0; at < sorted; at++) {
        const uint32_t *next = next_of(oracle, oracle->sorted[at], &count);
        for (uint32_t e = 0; e < count; e++)
            if (--oracle->awaited[next[e]] == 0)
                oracle->sorted[sorted++] = next[e];
    }
    return sorted == oracle->graph.count;
}

static void tails_compute(struct oracle *oracle)
{
    for (uint32_t at = oracle->graph.count, count; at-- > 0;) {
        uint32_t node = oracle->sorted[at];
        const uint32_t *next = next_of(oracle, node, &count);
        double longest = 0;
        for (uint32_t e = 0; e < count; e++)
            longest = fmax(longest, oracle->seconds[next[e]] + oracle->tails[next[e]]);
        oracle->tails[node] = longest + latency_of(oracle, node);
    }
}

static void arrays_open(struct oracle *oracle, size_t count)
{
    oracle->seconds = order_zalloc(count, sizeof *oracle->seconds);
    oracle->sorted = order_zalloc(count, sizeof *oracle->sorted);
    oracle->tails = order_zalloc(count, sizeof *oracle->tails);
    oracle->awaited = order_zalloc(count, sizeof *oracle->awaited);
    oracle->ready_s = order_zalloc(count, sizeof *oracle->ready_s);
    oracle->ends.entries = order_zalloc(count, sizeof *oracle->ends.entries);
    oracle->wire.left_s = order_zalloc(count, sizeof *oracle->wire.left_s);
    oracle->wire.waiting.entries =
        order_zalloc(count, sizeof *oracle->wire.waiting.entries);
    oracle->wire.pieces = order_zalloc(2 * count, sizeof *oracle->wire.pieces);
}

struct oracle *oracle_open(struct order_graph *graph,
                           const struct oracle_network *network)
{
    struct oracle *oracle = order_zalloc(1, sizeof *oracle);
    oracle->graph = *graph;
    oracle->latency_s = network->latency_s;
    arrays_open(oracle, graph->count);
    for (uint32_t i = 0; i < graph->count; i++) {
        const struct order_graph_node *node = &graph->nodes[i];
        oracle->seconds[i] = node->is_operation
                                 ? (double)node->bytes / network->bytes_per_s
                                 : node->seconds;
    }
    if (!nodes_sort(oracle)) {
        oracle_close(oracle);
        return NULL;
    }
    tails_compute(oracle);
    return oracle;
}

void oracle_close(struct oracle *oracle)
{
    if (!oracle)
        return;
    order_graph_close(&oracle->graph);
    free(oracle->seconds);
    free(oracle->sorted);
    free(oracle->tails);
    free(oracle->awaited);
    free(oracle->ready_s);
    free(oracle->ends.entries);
    free(oracle->wire.left_s);
    free(oracle->wire.waiting.entries);
    free(oracle->wire.pieces);
    free(oracle);
}

const double *oracle_tails(const struct oracle *oracle)
{
    return oracle->tails;
}

/* ---- replay ------------------------------------------------------------------------ */

static void replay_reset(struct oracle *oracle, const double *urgency, bool interrupts,
                         struct oracle_span *spans)
{
    wire_reset(&oracle->wire, urgency, interrupts);
    oracle->ends.count = 0;
    oracle->spans = spans;
    oracle->last_s = 0;
    for (uint32_t i = 0; i < oracle->graph.count; i++) {
        oracle->awaited[i] = oracle->graph.nodes[i].before_count;
        oracle->wire.left_s[i] = oracle->seconds[i];
        oracle->ready_s[i] = 0;
    }
}

static void node_ready(struct oracle *oracle, uint32_t node)
{
    double now_s = oracle->wire.now_s;
    oracle->ready_s[node] = now_s;
    if (oracle->spans)
        oracle->spans[node] = (struct oracle_span){now_s, now_s, now_s};
    if (oracle->graph.nodes[node].is_operation)
        wire_add(&oracle->wire, node);
    else
        heap_push(&oracle->ends, now_s + oracle->seconds[node], node);
}

static void node_end(struct oracle *oracle, uint32_t node)
{
    uint32_t count;
    oracle->last_s = oracle->wire.now_s;
    if (oracle->spans)
        oracle->spans[node].end_s = oracle->wire.now_s;
    const uint32_t *next = next_of(oracle, node, &count);
    for (uint32_t e = 0; e < count; e++)
        if (--oracle->awaited[next[e]] == 0)
            node_ready(oracle, next[e]);
}

/* Set the start of each operation's span. */
static void starts_note(struct oracle *oracle)
{
    const struct wire *wire = &oracle->wire;
    for (uint32_t i = wire->pieces_count; oracle->spans && i-- > 0;)
        oracle->spans[wire->pieces[i].node].start_s = wire->pieces[i].from_s;
}

double oracle_replay(struct oracle *oracle, const double *urgency, bool interrupts,
                     struct oracle_span *spans)
{
    struct wire *wire = &oracle->wire;
    struct heap *ends = &oracle->ends;
    replay_reset(oracle, urgency, interrupts, spans);
    for (uint32_t i = 0; i < oracle->graph.count; i++)
        if (oracle->graph.nodes[i].before_count == 0)
            node_ready(oracle, i);
    for (uint32_t ended = 0; ended < oracle->graph.count;) {
        uint32_t sent =
            wire_advance(wire, ends->count > 0 ? ends->entries[0].key : INFINITY);
        if (sent != ORACLE_NONE)
            heap_push(ends, wire->now_s + oracle->latency_s, sent);
        for (; ends->count > 0 && ends->entries[0].key <= wire->now_s; ended++)
            node_end(oracle, heap_pop(ends).node);
    }
    starts_note(oracle);
    return oracle->last_s;
}

const struct oracle_piece *oracle_pieces(const struct oracle *oracle, uint32_t *count_p)
{
    *count_p = oracle->wire.pieces_count;
    return oracle->wire.pieces;
}

/* ---- bound ------------------------------------------------------------------------- */

/* Compute when each node would be ready, if no operation waited for another, and queue
 * the operations by it. Returns the longest path of the graph. */
static double heads_compute(struct oracle *oracle)
{
    double longest = 0;
    for (uint32_t at = 0, count; at < oracle->graph.count; at++) {
        uint32_t node = oracle->sorted[at];
        const uint32_t *next = next_of(oracle, node, &count);
        double end =
            oracle->ready_s[node] + oracle->seconds[node] + latency_of(oracle, node);
        longest = fmax(longest, end);
        if (oracle->graph.nodes[node].is_operation)
            heap_push(&oracle->ends, oracle->ready_s[node], node);
        for (uint32_t e = 0; e < count; e++)
            oracle->ready_s[next[e]] = fmax(oracle->ready_s[next[e]], end);
    }
    return longest;
}

const double *oracle_heads(struct oracle *oracle)
{
    replay_reset(oracle, NULL, false, NULL);
    heads_compute(oracle);
    return oracle->ready_s;
}

double oracle_bound(struct oracle *oracle)
{
    struct wire *wire = &oracle->wire;
    struct heap *heads = &oracle->ends;
    replay_reset(oracle, oracle->tails, true, NULL);
    double bound = heads_compute(oracle);
    while (heads->count > 0 || wire->waiting.count > 0 || wire->served != ORACLE_NONE) {
        uint32_t sent =
            wire_advance(wire, heads->count > 0 ? heads->entries[0].key : INFINITY);
        if (sent != ORACLE_NONE)
            bound = fmax(bound, wire->now_s + oracle->tails[sent]);
        while (heads->count > 0 && heads->entries[0].key <= wire->now_s)
            wire_add(wire, heap_pop(heads).node);
    }
    return bound;
}
