/* SPDX-License-Identifier: Apache-2.0 */
/* Earliest sender first; see soonest.h. */
#include "soonest.h"

#include <math.h>

#include "plan_sizes.h"
#include "topology/base/arrays.h"
#include "topology/routes/overlay_price.h"

/* With more ranks a table of all edges costs more than it gains. */
#define RANKS_MAX 1024u

struct soonest {
    struct arrays arrays;
    uint32_t n;
    float *latency_s, *s_per_byte; /* [from × n + to]; INFINITY: no route */
    float *burden;                 /* [from × n + to]: factor of s_per_byte */
    /* By rank: the time at which the rank can send next; INFINITY: the rank has no
     * message, or no receiver is left. */
    double *free_s;
    bool *reached; /* by rank: the rank has the message, or will get it */
};

tryst_status soonest_open(struct overlay *overlay, struct soonest **soonest_p)
{
    size_t n = overlay->ranks_count;
    if (n > RANKS_MAX)
        return TRYST_E_UNSUPPORTED;
    struct soonest *soonest = mem_zalloc(sizeof *soonest);
    if (!soonest)
        return TRYST_E_NOMEM;
    struct arrays *arrays = &soonest->arrays;
    soonest->n = (uint32_t)n;
    soonest->latency_s = arrays_alloc(arrays, n * n, sizeof *soonest->latency_s);
    soonest->s_per_byte = arrays_alloc(arrays, n * n, sizeof *soonest->s_per_byte);
    soonest->burden = arrays_alloc(arrays, n * n, sizeof *soonest->burden);
    soonest->free_s = arrays_alloc(arrays, n, sizeof *soonest->free_s);
    soonest->reached = arrays_alloc(arrays, n, sizeof *soonest->reached);
    if (arrays->status) {
        soonest_close(soonest);
        return TRYST_E_NOMEM;
    }
    for (uint32_t k = 0; k < n * n; k++) {
        struct overlay_edge edge = {.routes = 0};
        if (k / n != k % n)
            overlay_edge(overlay, k / (uint32_t)n, k % (uint32_t)n, &edge);
        soonest->burden[k] = 1;
        bool known = edge.routes > 0 && edge.latency_ns != GRAPH_UNKNOWN;
        soonest->latency_s[k] = known ? (float)(edge.latency_ns * 1e-9) : 0;
        soonest->s_per_byte[k] =
            edge.routes > 0 ? (float)(1 / edge.bytes_per_s) : INFINITY;
    }
    *soonest_p = soonest;
    return TRYST_OK;
}

void soonest_close(struct soonest *soonest)
{
    arrays_free(&soonest->arrays);
    mem_free(soonest);
}

void soonest_burden(struct soonest *soonest, const uint32_t *parent)
{
    for (size_t i = 0; i < soonest->n; i++) {
        if (parent[i] == GRAPH_NONE)
            continue;
        soonest->burden[i * soonest->n + parent[i]] += 1;
        soonest->burden[(size_t)parent[i] * soonest->n + i] += 1;
    }
}

static double move_s(const struct soonest *soonest, size_t k, double bytes)
{
    return bytes * (double)soonest->s_per_byte[k] * (double)soonest->burden[k];
}

static uint32_t sender_find(const struct soonest *soonest)
{
    uint32_t best = GRAPH_NONE;
    for (uint32_t i = 0; i < soonest->n; i++)
        if (isfinite(soonest->free_s[i]) &&
            (best == GRAPH_NONE || soonest->free_s[i] < soonest->free_s[best]))
            best = i;
    return best;
}

/* Find the rank without the message that `from` reaches fastest; GRAPH_NONE if `from`
 * reaches none. */
static uint32_t receiver_find(const struct soonest *soonest, uint32_t from, double bytes,
                              double *trip_s_p)
{
    uint32_t best = GRAPH_NONE;
    for (uint32_t j = 0; j < soonest->n; j++) {
        size_t k = (size_t)from * soonest->n + j;
        double trip_s = (double)soonest->latency_s[k] + move_s(soonest, k, bytes);
        if (soonest->reached[j] || !isfinite(trip_s) ||
            (best != GRAPH_NONE && trip_s >= *trip_s_p))
            continue;
        best = j;
        *trip_s_p = trip_s;
    }
    return best;
}

bool soonest_tree(struct soonest *soonest, uint32_t root, double bytes, uint32_t *parent)
{
    uint32_t left = soonest->n - 1, from;
    for (uint32_t i = 0; i < soonest->n; i++) {
        soonest->free_s[i] = INFINITY;
        soonest->reached[i] = i == root;
    }
    soonest->free_s[root] = 0;
    parent[root] = GRAPH_NONE;
    while (left && (from = sender_find(soonest)) != GRAPH_NONE) {
        double trip_s = 0, begin_s = soonest->free_s[from];
        uint32_t to = receiver_find(soonest, from, bytes, &trip_s);
        soonest->free_s[from] = INFINITY;
        if (to == GRAPH_NONE)
            continue;
        size_t k = (size_t)from * soonest->n + to;
        soonest->free_s[from] = begin_s + PLAN_SLICE_S + move_s(soonest, k, bytes);
        soonest->free_s[to] = begin_s + 2 * PLAN_SLICE_S + trip_s;
        soonest->reached[to] = true;
        parent[to] = from;
        left--;
    }
    return left == 0;
}
