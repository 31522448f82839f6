/* SPDX-License-Identifier: Apache-2.0 */
/* Earliest sender first; see earliest.h. */
#include "earliest.h"

#include <math.h>

#include "core/memory/arrays.h"
#include "topology/routes/overlay_price.h"
#include "tree_cost.h"

/* With more ranks a table of all edges costs more than it gains. */
#define RANKS_MAX 1024u

struct earliest {
    struct arrays arrays;
    const struct overlay *overlay;
    uint32_t n;
    float *latency_s, *s_per_byte; /* [from × n + to]; INFINITY: no route */
    float *burden;                 /* [from × n + to]: factor of s_per_byte */
    /* By rank: the time at which the rank can send next; INFINITY: the rank has no
     * message, or no receiver is left. */
    double *free_s;
    bool *reached; /* by rank: the rank has the message, or will get it */
};

tryst_status earliest_open(struct overlay *overlay, struct earliest **earliest_p)
{
    size_t n = overlay->ranks_count;
    if (n > RANKS_MAX)
        return TRYST_E_UNSUPPORTED;
    struct earliest *earliest = mem_zalloc(sizeof *earliest);
    if (!earliest)
        return TRYST_E_NOMEM;
    struct arrays *arrays = &earliest->arrays;
    earliest->overlay = overlay;
    earliest->n = (uint32_t)n;
    earliest->latency_s = arrays_alloc(arrays, n * n, sizeof *earliest->latency_s);
    earliest->s_per_byte = arrays_alloc(arrays, n * n, sizeof *earliest->s_per_byte);
    earliest->burden = arrays_alloc(arrays, n * n, sizeof *earliest->burden);
    earliest->free_s = arrays_alloc(arrays, n, sizeof *earliest->free_s);
    earliest->reached = arrays_alloc(arrays, n, sizeof *earliest->reached);
    if (arrays->status) {
        earliest_close(earliest);
        return TRYST_E_NOMEM;
    }
    for (uint32_t k = 0; k < n * n; k++) {
        struct overlay_edge edge = {.routes = 0};
        if (k / n != k % n)
            overlay_edge(overlay, k / (uint32_t)n, k % (uint32_t)n, &edge);
        earliest->burden[k] = 1;
        bool known = edge.routes > 0 && edge.latency_ns != GRAPH_UNKNOWN;
        earliest->latency_s[k] = known ? (float)(edge.latency_ns * 1e-9) : 0;
        earliest->s_per_byte[k] =
            edge.routes > 0 ? (float)(1 / edge.bytes_per_s) : INFINITY;
    }
    *earliest_p = earliest;
    return TRYST_OK;
}

void earliest_close(struct earliest *earliest)
{
    arrays_free(&earliest->arrays);
    mem_free(earliest);
}

void earliest_burden(struct earliest *earliest, const uint32_t *parent)
{
    for (size_t i = 0; i < earliest->n; i++) {
        if (parent[i] == GRAPH_NONE)
            continue;
        earliest->burden[i * earliest->n + parent[i]] += 1;
        earliest->burden[(size_t)parent[i] * earliest->n + i] += 1;
    }
}

static double move_s(const struct earliest *earliest, size_t k, double bytes)
{
    return bytes * (double)earliest->s_per_byte[k] * (double)earliest->burden[k];
}

static uint32_t sender_find(const struct earliest *earliest)
{
    uint32_t best = GRAPH_NONE;
    for (uint32_t i = 0; i < earliest->n; i++)
        if (isfinite(earliest->free_s[i]) &&
            (best == GRAPH_NONE || earliest->free_s[i] < earliest->free_s[best]))
            best = i;
    return best;
}

/* Find the rank without the message that `from` reaches fastest; GRAPH_NONE if `from`
 * reaches none. */
static uint32_t receiver_find(const struct earliest *earliest, uint32_t from,
                              double bytes, double *trip_s_p)
{
    uint32_t best = GRAPH_NONE;
    for (uint32_t j = 0; j < earliest->n; j++) {
        size_t k = (size_t)from * earliest->n + j;
        double trip_s = (double)earliest->latency_s[k] + move_s(earliest, k, bytes);
        if (earliest->reached[j] || !isfinite(trip_s) ||
            (best != GRAPH_NONE && trip_s >= *trip_s_p))
            continue;
        best = j;
        *trip_s_p = trip_s;
    }
    return best;
}

bool earliest_tree(struct earliest *earliest, uint32_t root, double bytes,
                   uint32_t *parent)
{
    uint32_t left = earliest->n - 1, from;
    for (uint32_t i = 0; i < earliest->n; i++) {
        earliest->free_s[i] = INFINITY;
        earliest->reached[i] = i == root;
    }
    earliest->free_s[root] = 0;
    parent[root] = GRAPH_NONE;
    while (left && (from = sender_find(earliest)) != GRAPH_NONE) {
        double trip_s = 0, begin_s = earliest->free_s[from];
        uint32_t to = receiver_find(earliest, from, bytes, &trip_s);
        earliest->free_s[from] = INFINITY;
        if (to == GRAPH_NONE)
            continue;
        size_t k = (size_t)from * earliest->n + to;
        double slice_s = overlay_same_machine(earliest->overlay, from, to)
                             ? PLAN_HOST_SLICE_S
                             : PLAN_SLICE_S;
        earliest->free_s[from] = begin_s + slice_s + move_s(earliest, k, bytes);
        earliest->free_s[to] = begin_s + 2 * slice_s + trip_s;
        earliest->reached[to] = true;
        parent[to] = from;
        left--;
    }
    return left == 0;
}
