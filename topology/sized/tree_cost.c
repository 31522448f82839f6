/* SPDX-License-Identifier: Apache-2.0 */
/* Predicted times of trees; see tree_cost.h. */
#include "tree_cost.h"

#include <math.h>
#include <string.h>

#include "topology/routes/overlay_price.h"

/* An edge inside a machine, as a part of one between machines: its slices, its flow. */
#define HOST_SLICE (PLAN_HOST_SLICE_S / PLAN_SLICE_S)
#define HOST_FLOW  (PLAN_HOST_FLOW_S / PLAN_FLOW_S)

static bool has_all_roots(enum plan_op op)
{
    return op == PLAN_ALLGATHER || op == PLAN_REDUCE_SCATTER;
}

/* Return the part of the tensor that a tree carries. */
static double part_of(const struct tree_costing *costing, const struct plan_tree *tree)
{
    return has_all_roots(costing->op) ? tree->share / costing->n : tree->share;
}

/* Return the greatest of the values; 0 without values. */
static double most_of(const double *values, uint32_t count)
{
    double most = 0;
    for (uint32_t i = 0; i < count; i++)
        most = fmax(most, values[i]);
    return most;
}

/* Return the busiest link's time under `load`. */
static double busiest_of(const struct tree_costing *costing, const double *load)
{
    double most = 0;
    for (uint32_t l = 0; l < costing->overlay->links_count; l++)
        most = fmax(most, load[l] / costing->overlay->capacity[l]);
    return most;
}

/* ---- rounds of a tree -------------------------------------------------------------- */

static const uint32_t *half_of(const struct plan_tree *tree, bool up)
{
    return up ? tree->reduce_parent : tree->broadcast_parent;
}

/* Return the rank's position among its siblings, from 1: its parent serves the largest
 * subtree first. */
static uint32_t sibling_position(const struct tree_costing *costing,
                                 const uint32_t *parent, uint32_t i)
{
    uint32_t turn = 1;
    for (uint32_t k = 0; k < costing->n; k++)
        turn +=
            parent[k] == parent[i] && (costing->below[k] > costing->below[i] ||
                                       (costing->below[k] == costing->below[i] && k < i));
    return turn;
}

/* Set `turns`: how many rounds after its parent each rank is served. */
static void turns_compute(struct tree_costing *costing, const uint32_t *parent)
{
    memset(costing->below, 0, costing->n * sizeof *costing->below);
    for (uint32_t i = 0; i < costing->n; i++)
        for (uint32_t at = i; at != GRAPH_NONE; at = parent[at])
            costing->below[at]++;
    for (uint32_t i = 0; i < costing->n; i++)
        costing->turns[i] =
            parent[i] == GRAPH_NONE ? 0 : sibling_position(costing, parent, i);
}

/* Find the rounds of one half of each tree. Returns the last round of all. */
static uint32_t rounds_find(struct tree_costing *costing, const struct tree_set *set,
                            bool up)
{
    uint32_t last = 0, n = costing->n;
    for (uint32_t t = 0; t < set->count; t++) {
        const uint32_t *parent = half_of(&set->trees[t], up);
        costing->last_round[t] = 0;
        if (parent && set->in_turn)
            turns_compute(costing, parent);
        for (uint32_t i = 0; parent && i < n; i++) {
            uint32_t round = 0;
            for (uint32_t at = i; parent[at] != GRAPH_NONE; at = parent[at])
                round += set->in_turn ? costing->turns[at] : 1;
            costing->rounds[(size_t)t * n + i] = round;
            if (round > costing->last_round[t])
                costing->last_round[t] = round;
        }
        if (costing->last_round[t] > last)
            last = costing->last_round[t];
    }
    return last;
}

static void edge_ends(const uint32_t *parent, bool up, uint32_t i, uint32_t *from_p,
                      uint32_t *to_p)
{
    *from_p = up ? i : parent[i];
    *to_p = up ? parent[i] : i;
}

/* ---- one half of a set ------------------------------------------------------------- */

/* True if the edge is inside a machine and memory limits it, so the receiver's processor
 * moves the bytes. */
static bool is_copied(const struct overlay *overlay, uint32_t from, uint32_t to,
                      const struct overlay_edge *edge)
{
    return edge->bottleneck != GRAPH_NONE && overlay_same_machine(overlay, from, to) &&
           overlay->graph->links[overlay->links[edge->bottleneck]].kind == WIRE_MEMORY;
}

/* Add the load of `part` of the tensor on one edge to costing->load and its sums to
 * costing->adds, and raise costing->slice and `*latency_s_p` to the edge's where these
 * are longer. Where the receiver copies, it adds or copies at the rate of the edge: what
 * this takes beyond the sums goes to costing->adds_all. False if the edge has no
 * route. */
static bool edge_add(struct tree_costing *costing, uint32_t from, uint32_t to, bool up,
                     double part, double *latency_s_p)
{
    double sum = up ? costing->gamma : 0;
    struct overlay_edge edge;
    overlay_edge(costing->overlay, from, to, &edge);
    if (!(edge.routes > 0))
        return false;
    if (edge.latency_ns != GRAPH_UNKNOWN)
        *latency_s_p = fmax(*latency_s_p, edge.latency_ns * 1e-9);
    costing->slice = fmax(costing->slice, part / edge.bytes_per_s);
    overlay_load(costing->overlay, from, to, part, costing->load);
    costing->adds[to] += part * sum;
    if (is_copied(costing->overlay, from, to, &edge))
        costing->adds_all[to] += part * fmax(1 / edge.bytes_per_s - sum, 0);
    return true;
}

/* Count a pair of ranks once on each link of its routes. */
static void stream_add(struct tree_costing *costing, uint32_t from, uint32_t to)
{
    size_t pair = (size_t)from * costing->n + to;
    uint8_t bit = (uint8_t)(1u << pair % 8);
    if (costing->pairs[pair / 8] & bit)
        return;
    costing->pairs[pair / 8] |= bit;
    overlay_load(costing->overlay, from, to, 1, costing->streams);
}

/* Count an edge for both ends, and raise costing->hop to the edge's part of a round. */
static void ends_add(struct tree_costing *costing, uint32_t from, uint32_t to)
{
    bool inside = overlay_same_machine(costing->overlay, from, to);
    uint32_t *edges = inside ? costing->inside : costing->edges;
    edges[from]++;
    edges[to]++;
    costing->hop = fmax(costing->hop, inside ? HOST_SLICE : 1);
}

/* Compute loads and sums of one round. Returns false if an edge has no route. */
static bool round_load(struct tree_costing *costing, const struct tree_set *set, bool up,
                       uint32_t round)
{
    uint32_t n = costing->n;
    double latency_s = 0;
    costing->hop = 0;
    memset(costing->load, 0, costing->overlay->links_count * sizeof *costing->load);
    memset(costing->adds, 0, n * sizeof *costing->adds);
    for (uint32_t t = 0; t < set->count; t++) {
        const uint32_t *parent = half_of(&set->trees[t], up);
        double part = part_of(costing, &set->trees[t]);
        for (uint32_t i = 0; parent && i < n; i++) {
            uint32_t from, to;
            if (parent[i] == GRAPH_NONE || costing->rounds[(size_t)t * n + i] != round)
                continue;
            edge_ends(parent, up, i, &from, &to);
            if (!edge_add(costing, from, to, up, part, &latency_s))
                return false;
            stream_add(costing, from, to);
            if (part > 0)
                overlay_load(costing->overlay, from, to, 1, costing->slices);
            ends_add(costing, from, to);
        }
    }
    return true;
}

static bool half_measure(struct tree_costing *costing, const struct tree_set *set,
                         bool up)
{
    uint32_t last = rounds_find(costing, set, up);
    for (uint32_t round = 1; round <= last; round++) {
        if (!round_load(costing, set, up, round))
            return false;
        double move = busiest_of(costing, costing->load);
        double sum = most_of(costing->adds, costing->n);
        for (uint32_t t = 0; t < set->count; t++) {
            if (costing->last_round[t] < round)
                continue;
            costing->pace[t].move += move;
            costing->pace[t].sum += sum;
            costing->pace[t].rounds += costing->hop;
        }
        for (uint32_t l = 0; l < costing->overlay->links_count; l++)
            costing->load_all[l] += costing->load[l];
        for (uint32_t i = 0; i < costing->n; i++)
            costing->adds_all[i] += costing->adds[i];
    }
    return true;
}

/* Return the latency of the slowest path in one half of a tree. */
static double latency_find(struct tree_costing *costing, const uint32_t *parent, bool up)
{
    double most_s = 0, *edge_s = costing->adds;
    for (uint32_t i = 0; parent && i < costing->n; i++) {
        struct overlay_edge edge;
        uint32_t from, to;
        edge_s[i] = 0;
        if (parent[i] == GRAPH_NONE)
            continue;
        edge_ends(parent, up, i, &from, &to);
        overlay_edge(costing->overlay, from, to, &edge);
        edge_s[i] = edge.latency_ns == GRAPH_UNKNOWN ? 0 : edge.latency_ns * 1e-9;
    }
    for (uint32_t i = 0; parent && i < costing->n; i++) {
        double path_s = 0;
        for (uint32_t at = i; at != GRAPH_NONE; at = parent[at])
            path_s += edge_s[at];
        most_s = fmax(most_s, path_s);
    }
    return most_s;
}

/* ---- a set ------------------------------------------------------------------------- */

/* True if senders that together exceed the link's rate lose packets there. */
static bool loses_packets(enum graph_link_kind kind)
{
    return kind == WIRE_ETHERNET || kind == WIRE_UNKNOWN;
}

/* Return the time of the busiest link that loses packets and has several streams. */
static double crowded_find(const struct tree_costing *costing)
{
    const struct overlay *overlay = costing->overlay;
    double most = 0;
    for (uint32_t l = 0; l < overlay->links_count; l++)
        if (costing->streams[l] > 1 + 1e-9 &&
            loses_packets(overlay->graph->links[overlay->links[l]].kind))
            most = fmax(most, costing->load_all[l] / overlay->capacity[l]);
    return most;
}

/* Return the time of a byte for each slice, on the busiest link with the most slices. */
static double beside_find(const struct tree_costing *costing, double link)
{
    const struct overlay *overlay = costing->overlay;
    double most = 0;
    for (uint32_t l = 0; l < overlay->links_count; l++)
        if (costing->load_all[l] / overlay->capacity[l] >= link * (1 - 1e-9))
            most = fmax(most, costing->slices[l] / overlay->capacity[l]);
    return most;
}

struct tree_measure tree_costing_measure(struct tree_costing *costing,
                                         const struct tree_set *set)
{
    struct tree_measure measure = {
        .trees = costing->pace, .count = set->count, .part_least = 1};
    uint32_t links = costing->overlay->links_count, n = costing->n;
    memset(costing->pace, 0, set->count * sizeof *costing->pace);
    memset(costing->load_all, 0, links * sizeof *costing->load_all);
    memset(costing->adds_all, 0, n * sizeof *costing->adds_all);
    memset(costing->edges, 0, n * sizeof *costing->edges);
    memset(costing->inside, 0, n * sizeof *costing->inside);
    memset(costing->pairs, 0, ((size_t)n * n + 7) / 8);
    memset(costing->streams, 0, links * sizeof *costing->streams);
    memset(costing->slices, 0, links * sizeof *costing->slices);
    costing->slice = 0;
    measure.routed =
        half_measure(costing, set, true) && half_measure(costing, set, false);
    if (!measure.routed)
        return measure;
    measure.link = busiest_of(costing, costing->load_all);
    measure.crowded = crowded_find(costing);
    measure.beside = beside_find(costing, measure.link);
    measure.slice = costing->slice;
    measure.sums = most_of(costing->adds_all, n);
    for (uint32_t i = 0; i < n; i++) {
        double edges = costing->edges[i], inside = costing->inside[i];
        measure.edges = fmax(measure.edges, edges + inside * HOST_SLICE);
        measure.flows = fmax(measure.flows, edges + inside * HOST_FLOW);
    }
    for (uint32_t t = 0; t < set->count; t++) {
        const struct plan_tree *tree = &set->trees[t];
        double part = tree->share < PLAN_SHARE_MIN ? 0 : part_of(costing, tree);
        costing->pace[t].part = part;
        measure.part_most = fmax(measure.part_most, part);
        measure.part_least =
            part > 0 ? fmin(measure.part_least, part) : measure.part_least;
        costing->pace[t].latency_s =
            latency_find(costing, tree->broadcast_parent, false) +
            latency_find(costing, tree->reduce_parent, true);
    }
    return measure;
}

/* Return the busiest link's time for a byte; one slice of every tree has `slices` bytes
 * together. */
static double link_time(const struct tree_measure *measure, double slices,
                        const struct tree_overheads *overheads)
{
    double crowded = measure->crowded * (1 + overheads->crowded);
    double beside = overheads->slice_bytes * measure->beside / slices;
    return fmax(measure->link, crowded) + beside;
}

double tree_measure_time(const struct tree_measure *measure, double bytes,
                         double slice_bytes, const struct tree_overheads *overheads)
{
    double longest_s = 0;
    if (!measure->routed)
        return INFINITY;
    double slices = fmin(slice_bytes / measure->part_most, bytes);
    double sums = measure->sums + overheads->slice_s * measure->edges / slices;
    double link = link_time(measure, slices, overheads);
    double slower = measure->link > 0 ? link / measure->link : 1;
    for (uint32_t t = 0; t < measure->count; t++) {
        const struct tree_pace *pace = &measure->trees[t];
        if (!(pace->part > 0))
            continue;
        double time_s = pace->latency_s + 2 * pace->rounds * overheads->slice_s +
                        slices * (slower * pace->move + pace->sum) +
                        (bytes - slices) * fmax(link, sums);
        longest_s = fmax(longest_s, time_s);
    }
    return longest_s + overheads->flow_s * measure->flows;
}

tryst_status tree_costing_init(struct tree_costing *costing, struct overlay *overlay,
                               enum plan_op op, uint32_t trees_max,
                               double sum_bytes_per_s)
{
    uint32_t n = overlay->ranks_count, links = overlay->links_count;
    size_t trees = trees_max ? trees_max : 1;
    struct arrays *arrays = &costing->arrays;
    *costing = (struct tree_costing){
        .overlay = overlay,
        .op = op,
        .n = n,
        .gamma = 1 / (sum_bytes_per_s > 0 ? sum_bytes_per_s : PLAN_SUM_BYTES_PER_S)};
    costing->turns = arrays_alloc(arrays, n, sizeof *costing->turns);
    costing->below = arrays_alloc(arrays, n, sizeof *costing->below);
    costing->edges = arrays_alloc(arrays, n, sizeof *costing->edges);
    costing->inside = arrays_alloc(arrays, n, sizeof *costing->inside);
    costing->rounds = arrays_alloc(arrays, trees * n, sizeof *costing->rounds);
    costing->last_round = arrays_alloc(arrays, trees, sizeof *costing->last_round);
    costing->pace = arrays_alloc(arrays, trees, sizeof *costing->pace);
    costing->load = arrays_alloc(arrays, links, sizeof *costing->load);
    costing->load_all = arrays_alloc(arrays, links, sizeof *costing->load_all);
    costing->adds = arrays_alloc(arrays, n, sizeof *costing->adds);
    costing->adds_all = arrays_alloc(arrays, n, sizeof *costing->adds_all);
    costing->pairs = arrays_alloc(arrays, ((size_t)n * n + 7) / 8, 1);
    costing->streams = arrays_alloc(arrays, links, sizeof *costing->streams);
    costing->slices = arrays_alloc(arrays, links, sizeof *costing->slices);
    return arrays->status;
}

void tree_costing_free(struct tree_costing *costing)
{
    arrays_free(&costing->arrays);
}
