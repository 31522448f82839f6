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
#include <string.h>

#include "core/memory/alloc.h"
#include "oracle_wire.h"

struct oracle {
    uint32_t count;
    struct oracle_node *nodes;
    uint32_t
        *first; /* [count + 1]: a node's successors are next[first[i] … first[i+1]) */
    uint32_t *next;   /* [edges] */
    uint32_t *before; /* [count]: number of predecessors */
    uint32_t *sorted; /* [count]: each node after its predecessors */
    double *tails;    /* [count] */
    /* of a replay: */
    uint32_t *awaited; /* [count]: number of predecessors that have not ended */
    double *ready_s;   /* [count] */
    struct oracle_heap ends;
    struct oracle_wire wire;
    tryst_profile_span *spans;
    double last_s;
};

/* ---- graph ------------------------------------------------------------------------- */

static tryst_status nodes_check(const struct oracle_node *nodes, uint32_t count,
                                struct err *err)
{
    for (uint32_t i = 0; i < count; i++)
        if (!(nodes[i].seconds >= 0 && nodes[i].latency_s >= 0) ||
            !isfinite(nodes[i].seconds + nodes[i].latency_s))
            return err_set(err, TRYST_E_INVALID,
                           "cannot replay the step: node %u lasts %g s with %g s of "
                           "latency; both must be finite and at least 0",
                           i, nodes[i].seconds, nodes[i].latency_s);
    return TRYST_OK;
}

static tryst_status edges_check(const struct oracle_edge *edges, uint32_t edges_count,
                                uint32_t count, struct err *err)
{
    for (uint32_t i = 0; i < edges_count; i++)
        if (edges[i].from >= count || edges[i].to >= count)
            return err_set(err, TRYST_E_INVALID,
                           "cannot replay the step: edge %u leads from node %u to node "
                           "%u; there are %u nodes",
                           i, edges[i].from, edges[i].to, count);
    return TRYST_OK;
}

static void edges_sort(struct oracle *oracle, const struct oracle_edge *edges,
                       uint32_t edges_count)
{
    for (uint32_t i = 0; i < edges_count; i++) {
        oracle->first[edges[i].from + 1]++;
        oracle->before[edges[i].to]++;
    }
    for (uint32_t i = 0; i < oracle->count; i++)
        oracle->first[i + 1] += oracle->first[i];
    memcpy(oracle->awaited, oracle->first, oracle->count * sizeof *oracle->awaited);
    for (uint32_t i = 0; i < edges_count; i++)
        oracle->next[oracle->awaited[edges[i].from]++] = edges[i].to;
}

/* Sort the nodes (Kahn 1962): a node of a cycle never has all predecessors sorted. */
static tryst_status nodes_sort(struct oracle *oracle, struct err *err, uint32_t *cycle_p)
{
    uint32_t sorted = 0;
    memcpy(oracle->awaited, oracle->before, oracle->count * sizeof *oracle->awaited);
    for (uint32_t i = 0; i < oracle->count; i++)
        if (oracle->before[i] == 0)
            oracle->sorted[sorted++] = i;
    for (uint32_t at = 0; at < sorted; at++) {
        uint32_t node = oracle->sorted[at];
        for (uint32_t e = oracle->first[node]; e < oracle->first[node + 1]; e++)
            if (--oracle->awaited[oracle->next[e]] == 0)
                oracle->sorted[sorted++] = oracle->next[e];
    }
    for (uint32_t i = 0; sorted < oracle->count && i < oracle->count; i++)
        if (oracle->awaited[i] > 0) {
            *cycle_p = i;
            return err_set(err, TRYST_E_INVALID,
                           "cannot replay the step: node %u waits for a cycle of nodes",
                           i);
        }
    return TRYST_OK;
}

/* Return the time of a node that waits for nothing. */
static double node_seconds(const struct oracle_node *node)
{
    return node->seconds + (node->is_operation ? node->latency_s : 0);
}

static void tails_compute(struct oracle *oracle)
{
    for (uint32_t at = oracle->count; at-- > 0;) {
        uint32_t node = oracle->sorted[at];
        double longest = 0;
        for (uint32_t e = oracle->first[node]; e < oracle->first[node + 1]; e++) {
            uint32_t next = oracle->next[e];
            const struct oracle_node *after = &oracle->nodes[next];
            longest = fmax(longest, after->seconds + oracle->tails[next]);
        }
        const struct oracle_node *self = &oracle->nodes[node];
        oracle->tails[node] = longest + (self->is_operation ? self->latency_s : 0);
    }
}

static bool arrays_open(struct oracle *oracle, uint32_t count, uint32_t edges_count)
{
    size_t n = (size_t)count + 1;
    oracle->nodes = mem_zalloc_array(n, sizeof *oracle->nodes);
    oracle->first = mem_zalloc_array(n, sizeof *oracle->first);
    oracle->next = mem_zalloc_array((size_t)edges_count + 1, sizeof *oracle->next);
    oracle->before = mem_zalloc_array(n, sizeof *oracle->before);
    oracle->sorted = mem_zalloc_array(n, sizeof *oracle->sorted);
    oracle->tails = mem_zalloc_array(n, sizeof *oracle->tails);
    oracle->awaited = mem_zalloc_array(n, sizeof *oracle->awaited);
    oracle->ready_s = mem_zalloc_array(n, sizeof *oracle->ready_s);
    oracle->ends.entries = mem_zalloc_array(n, sizeof *oracle->ends.entries);
    oracle->wire.left_s = mem_zalloc_array(n, sizeof *oracle->wire.left_s);
    oracle->wire.waiting.entries =
        mem_zalloc_array(n, sizeof *oracle->wire.waiting.entries);
    oracle->wire.pieces = mem_zalloc_array(2 * n, sizeof *oracle->wire.pieces);
    return oracle->nodes && oracle->first && oracle->next && oracle->before &&
           oracle->sorted && oracle->tails && oracle->awaited && oracle->ready_s &&
           oracle->ends.entries && oracle->wire.left_s && oracle->wire.waiting.entries &&
           oracle->wire.pieces;
}

tryst_status oracle_open(const struct oracle_node *nodes, uint32_t nodes_count,
                         const struct oracle_edge *edges, uint32_t edges_count,
                         struct err *err, uint32_t *cycle_p, struct oracle **oracle_p)
{
    uint32_t cycle;
    if (!cycle_p)
        cycle_p = &cycle;
    *cycle_p = ORACLE_NONE;
    *oracle_p = NULL;
    tryst_status status = nodes_check(nodes, nodes_count, err);
    if (status == TRYST_OK)
        status = edges_check(edges, edges_count, nodes_count, err);
    if (status != TRYST_OK)
        return status;
    struct oracle *oracle = mem_zalloc(sizeof *oracle);
    if (!oracle || !arrays_open(oracle, nodes_count, edges_count)) {
        oracle_close(oracle);
        return err_set(err, TRYST_E_NOMEM, "cannot replay the step: out of memory");
    }
    oracle->count = nodes_count;
    if (nodes_count > 0)
        memcpy(oracle->nodes, nodes, nodes_count * sizeof *nodes);
    edges_sort(oracle, edges, edges_count);
    status = nodes_sort(oracle, err, cycle_p);
    if (status != TRYST_OK) {
        oracle_close(oracle);
        return status;
    }
    tails_compute(oracle);
    *oracle_p = oracle;
    return TRYST_OK;
}

void oracle_close(struct oracle *oracle)
{
    if (!oracle)
        return;
    mem_free(oracle->nodes);
    mem_free(oracle->first);
    mem_free(oracle->next);
    mem_free(oracle->before);
    mem_free(oracle->sorted);
    mem_free(oracle->tails);
    mem_free(oracle->awaited);
    mem_free(oracle->ready_s);
    mem_free(oracle->ends.entries);
    mem_free(oracle->wire.left_s);
    mem_free(oracle->wire.waiting.entries);
    mem_free(oracle->wire.pieces);
    mem_free(oracle);
}

const double *oracle_tails(const struct oracle *oracle)
{
    return oracle->tails;
}

/* ---- replay ------------------------------------------------------------------------ */

static void replay_reset(struct oracle *oracle, const double *urgency, bool interrupts,
                         tryst_profile_span *spans)
{
    oracle_wire_reset(&oracle->wire, urgency, interrupts);
    oracle->ends.count = 0;
    oracle->spans = spans;
    oracle->last_s = 0;
    for (uint32_t i = 0; i < oracle->count; i++) {
        oracle->awaited[i] = oracle->before[i];
        oracle->wire.left_s[i] = oracle->nodes[i].seconds;
        oracle->ready_s[i] = 0;
    }
}

static void node_ready(struct oracle *oracle, uint32_t node)
{
    double now_s = oracle->wire.now_s;
    oracle->ready_s[node] = now_s;
    if (oracle->spans)
        oracle->spans[node] = (tryst_profile_span){now_s, now_s, now_s};
    if (oracle->nodes[node].is_operation)
        oracle_wire_add(&oracle->wire, node);
    else
        oracle_heap_push(&oracle->ends, now_s + oracle->nodes[node].seconds, node);
}

static void node_end(struct oracle *oracle, uint32_t node)
{
    oracle->last_s = oracle->wire.now_s;
    if (oracle->spans)
        oracle->spans[node].end_s = oracle->wire.now_s;
    for (uint32_t e = oracle->first[node]; e < oracle->first[node + 1]; e++)
        if (--oracle->awaited[oracle->next[e]] == 0)
            node_ready(oracle, oracle->next[e]);
}

/* Set the start of each operation's span. */
static void starts_note(struct oracle *oracle)
{
    const struct oracle_wire *wire = &oracle->wire;
    for (uint32_t i = wire->pieces_count; oracle->spans && i-- > 0;)
        oracle->spans[wire->pieces[i].node].start_s = wire->pieces[i].from_s;
}

double oracle_replay(struct oracle *oracle, const double *urgency, bool interrupts,
                     tryst_profile_span *spans)
{
    struct oracle_wire *wire = &oracle->wire;
    struct oracle_heap *ends = &oracle->ends;
    replay_reset(oracle, urgency, interrupts, spans);
    for (uint32_t i = 0; i < oracle->count; i++)
        if (oracle->before[i] == 0)
            node_ready(oracle, i);
    for (uint32_t ended = 0; ended < oracle->count;) {
        uint32_t sent =
            oracle_wire_advance(wire, ends->count > 0 ? ends->entries[0].key : INFINITY);
        if (sent != ORACLE_NONE)
            oracle_heap_push(ends, wire->now_s + oracle->nodes[sent].latency_s, sent);
        for (; ends->count > 0 && ends->entries[0].key <= wire->now_s; ended++)
            node_end(oracle, oracle_heap_pop(ends).node);
    }
    starts_note(oracle);
    return oracle->last_s;
}

const tryst_profile_piece *oracle_pieces(const struct oracle *oracle, uint32_t *count_p)
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
    for (uint32_t at = 0; at < oracle->count; at++) {
        uint32_t node = oracle->sorted[at];
        double end = oracle->ready_s[node] + node_seconds(&oracle->nodes[node]);
        longest = fmax(longest, end);
        if (oracle->nodes[node].is_operation)
            oracle_heap_push(&oracle->ends, oracle->ready_s[node], node);
        for (uint32_t e = oracle->first[node]; e < oracle->first[node + 1]; e++) {
            double *ready_s = &oracle->ready_s[oracle->next[e]];
            *ready_s = fmax(*ready_s, end);
        }
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
    struct oracle_wire *wire = &oracle->wire;
    struct oracle_heap *heads = &oracle->ends;
    replay_reset(oracle, oracle->tails, true, NULL);
    double bound = heads_compute(oracle);
    while (heads->count > 0 || wire->waiting.count > 0 || wire->served != ORACLE_NONE) {
        uint32_t sent = oracle_wire_advance(wire, heads->count > 0 ? heads->entries[0].key
                                                                   : INFINITY);
        if (sent != ORACLE_NONE)
            bound = fmax(bound, wire->now_s + oracle->tails[sent]);
        while (heads->count > 0 && heads->entries[0].key <= wire->now_s)
            oracle_wire_add(wire, oracle_heap_pop(heads).node);
    }
    return bound;
}
