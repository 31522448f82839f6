/* SPDX-License-Identifier: Apache-2.0 */
#include "order_replay.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *order_name(enum order order)
{
    static const char *const names[ORDER_COUNT] = {[ORDER_FIFO] = "fifo",
                                                   [ORDER_BUCKETS] = "buckets",
                                                   [ORDER_PRIORITY] = "priority",
                                                   [ORDER_PREEMPT] = "preempt"};
    return names[order];
}

/* A profile has no cycle, and so has an oracle. */
static struct oracle *profile_oracle(const struct order_profile *profile,
                                     const struct oracle_network *network)
{
    struct order_graph graph = order_graph_open(profile, NULL);
    return oracle_open(&graph, network);
}

double order_bound(const struct order_profile *profile,
                   const struct oracle_network *network)
{
    struct oracle *oracle = profile_oracle(profile, network);
    double bound = oracle_bound(oracle);
    oracle_close(oracle);
    return bound;
}

double *order_tails(const struct order_profile *profile,
                    const struct oracle_network *network)
{
    struct oracle *oracle = profile_oracle(profile, network);
    double *tails = order_zalloc(profile->count, sizeof *tails);
    memcpy(tails, oracle_tails(oracle), profile->count * sizeof *tails);
    oracle_close(oracle);
    return tails;
}

/* ---- groups ------------------------------------------------------------------------ */

/* An operation. */
struct ready {
    double ready_s, tail_s;
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
 * waited for another. */
static struct ready *ready_sort(const struct order_profile *profile,
                                const struct oracle_network *network, uint32_t *count_p)
{
    struct oracle *oracle = profile_oracle(profile, network);
    struct ready *list = order_zalloc(profile->count, sizeof *list);
    const double *heads = oracle_heads(oracle), *tails = oracle_tails(oracle);
    *count_p = 0;
    for (uint32_t i = 0; i < profile->count; i++)
        if (profile->nodes[i].is_operation)
            list[(*count_p)++] =
                (struct ready){.ready_s = heads[i], .tail_s = tails[i], .node = i};
    qsort(list, *count_p, sizeof *list, ready_compare);
    oracle_close(oracle);
    return list;
}

int32_t *order_priorities(const struct order_profile *profile,
                          const struct oracle_network *network)
{
    int32_t *priorities = order_zalloc(profile->count, sizeof *priorities);
    uint32_t count;
    struct ready *list = ready_sort(profile, network, &count);
    for (uint32_t i = 0; i < count; i++)
        list[i].ready_s = -list[i].tail_s;
    qsort(list, count, sizeof *list, ready_compare);
    for (uint32_t i = 0; i < count; i++)
        priorities[list[i].node] = (int32_t)i;
    free(list);
    return priorities;
}

struct order_groups order_buckets(const struct order_profile *profile,
                                  const struct order_params *params)
{
    struct order_groups buckets = order_groups_open(profile);
    uint32_t count;
    struct ready *list = ready_sort(profile, &params->network, &count);
    uint64_t bytes = 0; /* of the last bucket */
    for (uint32_t i = 0; i < count; i++) {
        uint64_t full =
            buckets.count > 1 ? params->bucket_bytes : params->first_bucket_bytes;
        bool begins = buckets.count == 0 || bytes >= full;
        bytes = (begins ? 0 : bytes) + profile->nodes[list[i].node].bytes;
        order_groups_put(&buckets, list[i].node, buckets.count - !begins);
    }
    free(list);
    return buckets;
}

/* ---- replay ------------------------------------------------------------------------ */

/* Report a group's times and pieces as those of its operations. */
static void groups_report(const struct order_profile *profile,
                          const struct order_groups *groups, struct order_row *row)
{
    uint32_t n = profile->count;
    for (uint32_t i = 0; i < n; i++)
        if (profile->nodes[i].is_operation)
            row->spans[i] = row->spans[n + groups->of[i]];
    for (uint32_t i = 0; i < row->pieces_count; i++)
        row->pieces[i].node = groups->first[row->pieces[i].node - n];
}

bool order_replay(const struct order_profile *profile, const struct order_params *params,
                  enum order order, struct order_row *row_p)
{
    bool in_buckets = order == ORDER_BUCKETS;
    bool by_tail = order == ORDER_PRIORITY || order == ORDER_PREEMPT;
    struct order_groups buckets = {.count = 0};
    if (in_buckets)
        buckets = order_buckets(profile, params);
    struct order_graph graph = order_graph_open(profile, in_buckets ? &buckets : NULL);
    struct order_row row = {.name = order_name(order),
                            .in_buckets = in_buckets,
                            .order = order,
                            .spans = order_zalloc(graph.count, sizeof *row.spans)};
    struct oracle *oracle = oracle_open(&graph, &params->network);
    if (oracle) {
        row.seconds = oracle_replay(oracle, by_tail ? oracle_tails(oracle) : NULL,
                                    order == ORDER_PREEMPT, row.spans);
        const struct oracle_piece *pieces = oracle_pieces(oracle, &row.pieces_count);
        row.pieces = order_zalloc(row.pieces_count, sizeof *pieces);
        memcpy(row.pieces, pieces, row.pieces_count * sizeof *pieces);
        if (in_buckets)
            groups_report(profile, &buckets, &row);
        *row_p = row;
    } else {
        order_row_free(&row);
    }
    order_groups_close(&buckets);
    bool possible = oracle != NULL;
    oracle_close(oracle);
    return possible;
}

void order_row_free(struct order_row *row)
{
    free(row->spans);
    free(row->pieces);
    *row = (struct order_row){.seconds = 0};
}
