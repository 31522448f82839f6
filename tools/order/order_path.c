/* SPDX-License-Identifier: Apache-2.0 */
/* Implements order_path.h.
 *
 * The longest path is found by tails: of a node's successors the one with the longest
 * time to the end of the profile is next on the path.
 *
 * The chain of a replay is found from its end backwards. Before an action comes the node
 * that ended last of those that the action comes after. Before the end of an operation
 * the network served pieces without a pause; the first of them, going back, that began
 * when its operation became ready is where the network's part of the chain begins.
 * Invariant: each turn goes back in time or to a predecessor. */
#include "order_path.h"

#include <math.h>
#include <stdlib.h>

#define NONE UINT32_MAX
/* Times of one replay that are computed in two ways differ by rounding alone. */
#define ROUNDING 1e-9

void order_path_free(struct order_path *path)
{
    free(path->parts);
    *path = (struct order_path){.parts = NULL};
}

/* ---- the longest path -------------------------------------------------------------- */

/* Return the time of a node that waits for nothing, without the latency. */
static double node_seconds(const struct order_node *node,
                           const struct oracle_network *network)
{
    return node->is_operation ? (double)node->bytes / network->bytes_per_s
                              : node->seconds;
}

struct best {
    double rest_s;
    uint32_t node;
};

static void best_take(struct best *best, double rest_s, uint32_t node)
{
    if (best->node == NONE || rest_s > best->rest_s)
        *best = (struct best){rest_s, node};
}

struct order_path order_path_longest(const struct order_profile *profile,
                                     const struct oracle_network *network)
{
    uint32_t count = profile->count;
    double *tails = order_tails(profile, network), now_s = 0;
    /* next[i]: the successor of node i with the longest rest; next[count]: the first */
    struct best *next = order_zalloc(count, sizeof *next);
    struct order_path path = {order_zalloc(count, sizeof *path.parts), 0};
    for (uint32_t i = 0; i <= count; i++)
        next[i].node = NONE;
    for (uint32_t i = 0; i < count; i++) {
        const struct order_node *node = &profile->nodes[i];
        /* from its begin to the end; the tail of an operation contains its latency */
        double rest_s = node_seconds(node, network) + tails[i];
        for (uint32_t a = 0; a < node->after_count; a++)
            best_take(&next[node->after[a]], rest_s, i);
        if (node->after_count == 0)
            best_take(&next[count], rest_s, i);
    }
    for (uint32_t at = next[count].node; at != NONE; at = next[at].node) {
        const struct order_node *node = &profile->nodes[at];
        double to_s = now_s + node_seconds(node, network) +
                      (node->is_operation ? network->latency_s : 0);
        path.parts[path.count++] =
            (struct order_path_part){at, node->is_operation, now_s, to_s};
        now_s = to_s;
    }
    free(tails);
    free(next);
    return path;
}

/* ---- the chain of a replay --------------------------------------------------------- */

struct walk {
    const struct order_profile *profile;
    const struct oracle_network *network;
    const struct order_row *row;
    double rounding_s;
    struct order_path path; /* from the end backwards */
    size_t room;            /* of path.parts */
};

static const struct oracle_span *span_of(const struct walk *walk, uint32_t node)
{
    return &walk->row->spans[node];
}

static void part_add(struct walk *walk, uint32_t node, bool is_operation, double from_s,
                     double to_s)
{
    if (walk->path.count < walk->room)
        walk->path.parts[walk->path.count++] =
            (struct order_path_part){node, is_operation, from_s, to_s};
}

static void last_take(const struct walk *walk, uint32_t node, uint32_t *last)
{
    if (*last == NONE || span_of(walk, node)->end_s > span_of(walk, *last)->end_s)
        *last = node;
}

/* Take the last one of the nodes that `node` comes after. Returns true if one of them is
 * an operation. */
static bool before_take(const struct walk *walk, uint32_t index, uint32_t *last)
{
    const struct order_node *node = &walk->profile->nodes[index];
    bool needs_operation = false;
    for (uint32_t a = 0; a < node->after_count; a++) {
        needs_operation |= walk->profile->nodes[node->after[a]].is_operation;
        last_take(walk, node->after[a], last);
    }
    return needs_operation;
}

/* Take the last one of what comes before `index` in buckets: before an operation all that
 * its bucket comes after, before an action that needs an operation all operations. */
static void bucket_before_take(const struct walk *walk, uint32_t index, bool is_operation,
                               uint32_t *last)
{
    const struct oracle_span *span = span_of(walk, index);
    for (uint32_t i = 0; i < walk->profile->count; i++) {
        const struct oracle_span *other = span_of(walk, i);
        if (!walk->profile->nodes[i].is_operation)
            continue;
        if (!is_operation)
            last_take(walk, i, last);
        else if (other->ready_s == span->ready_s && other->end_s == span->end_s)
            (void)before_take(walk, i, last);
    }
}

/* Return the last node that `index` waited for; NONE: it was ready at once. */
static uint32_t before_of(const struct walk *walk, uint32_t index)
{
    uint32_t last = NONE;
    bool is_operation = walk->profile->nodes[index].is_operation;
    bool needs_operation = before_take(walk, index, &last);
    if (walk->row->order == ORDER_BUCKETS && (is_operation || needs_operation))
        bucket_before_take(walk, index, is_operation, &last);
    return last;
}

/* Return the number of pieces up to the one that ended at `end_s`; 0: none did. */
static uint32_t pieces_until(const struct walk *walk, double end_s)
{
    uint32_t until = walk->row->pieces_count;
    while (until > 0 && walk->row->pieces[until - 1].to_s > end_s + walk->rounding_s)
        until--;
    if (until > 0 && walk->row->pieces[until - 1].to_s < end_s - walk->rounding_s)
        return 0;
    return until;
}

/* Add what the network served before operation `index` ended, and return the operation
 * that began it. */
static uint32_t network_add(struct walk *walk, uint32_t index)
{
    const struct oracle_piece *pieces = walk->row->pieces;
    double end_s = span_of(walk, index)->end_s;
    double sent_s = end_s - walk->network->latency_s;
    uint32_t until = pieces_until(walk, sent_s);
    if (until == 0) { /* no bytes */
        part_add(walk, index, true, span_of(walk, index)->ready_s, end_s);
        return index;
    }
    if (walk->network->latency_s > 0)
        part_add(walk, index, true, sent_s, end_s);
    for (uint32_t i = until; i-- > 0;) {
        const struct oracle_piece *piece = &pieces[i];
        part_add(walk, piece->node, true, piece->from_s, piece->to_s);
        if (piece->from_s <= span_of(walk, piece->node)->ready_s + walk->rounding_s ||
            i == 0 || pieces[i - 1].to_s < piece->from_s - walk->rounding_s)
            return piece->node;
    }
    return index;
}

static void walk_back(struct walk *walk)
{
    uint32_t at = NONE, count = walk->profile->count;
    for (uint32_t i = 0; i < count; i++)
        last_take(walk, i, &at);
    /* A turn for each node: times that differ by less than rounding could mislead it. */
    for (uint32_t turns = 0; at != NONE && turns < count; turns++) {
        const struct oracle_span *span = span_of(walk, at);
        if (walk->profile->nodes[at].is_operation)
            at = network_add(walk, at);
        else
            part_add(walk, at, false, span->start_s, span->end_s);
        at = before_of(walk, at);
    }
}

struct order_path order_path_of_row(const struct order_profile *profile,
                                    const struct oracle_network *network,
                                    const struct order_row *row)
{
    /* each node, its latency, and each piece are in it once at most */
    size_t room = 2 * (size_t)profile->count + row->pieces_count + 1;
    struct walk walk = {.profile = profile,
                        .network = network,
                        .row = row,
                        .rounding_s = row->seconds * ROUNDING,
                        .path = {order_zalloc(room, sizeof *walk.path.parts), 0},
                        .room = room};
    walk_back(&walk);
    for (uint32_t i = 0, j = walk.path.count; i + 1 < j--; i++) {
        struct order_path_part part = walk.path.parts[i];
        walk.path.parts[i] = walk.path.parts[j];
        walk.path.parts[j] = part;
    }
    return walk.path;
}
