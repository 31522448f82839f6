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
    struct order_graph graph = order_graph_open(profile, NULL, false);
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
    double seconds; /* of its bytes */
    uint32_t node;
    /* of the plan, where it begins a group: the group's last one in the list, and the
     * number of groups from this one on */
    uint32_t last, groups_count;
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
            list[(*count_p)++] = (struct ready){
                .ready_s = heads[i],
                .tail_s = tails[i],
                .seconds = (double)profile->nodes[i].bytes / network->bytes_per_s,
                .node = i};
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

/* ---- fusion ------------------------------------------------------------------------ */

/* Let operations be sorted by the time at which they are ready, and their tails rise in
 * the same order, as in data-parallel training, where the gradient that is ready last is
 * needed first. A group of neighbours is ready with its last member and has that member's
 * tail. Under preemptive priority the step then takes the largest, over the groups, of
 *
 *     ready + tail + costs of this group and of all later ones
 *
 * (each later group is ready later and is more urgent). Whether a time is enough is found
 * in one pass: from the last operation to the first, make each group as long as the time
 * permits, for fewer groups cost less. Bisection finds the least time.
 *
 * No group needs a gap: with the same last members, groups of neighbours leave the same
 * bytes or fewer to the later ones. So the result is the best of all partitions. Where
 * tails do not rise, they are taken to be as long as the longest one before, and the
 * result is only a good one.
 *
 * PACE (Bao et al., INFOCOM 2020) merges by dynamic programming with the step's time as
 * its oracle.
 *
 * One pass, for a time T: item i can begin a group that ends with item j if
 *
 *     ready[j] + tail[j] + (groups from j + 1 on, + 1) * overhead <= T - left[i]
 *
 * where left[i] is the time of the bytes from i on. The right side falls as i falls, so
 * an end that is too late for one i is too late for all before it: each end is tried
 * once. */

/* Plan the fewest groups with which the step takes at most `most_s`. False: no groups
 * do. */
static bool plan_within(struct ready *list, uint32_t count, double overhead_s,
                        double most_s)
{
    double left_s = 0;
    uint32_t end = count - 1;
    for (uint32_t i = count; i-- > 0;) {
        left_s += list[i].seconds;
        for (;; end--) {
            uint32_t behind = end + 1 < count ? list[end + 1].groups_count : 0;
            double cost_s = (behind + 1) * overhead_s;
            list[i].last = end;
            list[i].groups_count = behind + 1;
            if (list[end].ready_s + list[end].tail_s + cost_s <= most_s - left_s)
                break;
            if (end == i)
                return false;
        }
    }
    return true;
}

/* Partition the list (1 at least) into groups that cost `overhead_s` beside their bytes:
 * the first one begins with item 0, the next one behind its last item, and so on. Raises
 * tails to what was taken. */
static void plan_make(struct ready *list, uint32_t count, double overhead_s)
{
    double low_s = 0, bytes_s = 0, tail_s = 0;
    for (uint32_t i = 0; i < count; i++) {
        tail_s = list[i].tail_s = fmax(tail_s, list[i].tail_s);
        low_s = fmax(low_s, list[i].ready_s + tail_s);
        bytes_s += list[i].seconds;
    }
    /* Enough for one group, whatever was rounded. */
    double high_s = (low_s + bytes_s + overhead_s) * (1 + 1e-9);
    for (;;) {
        double middle_s = low_s + (high_s - low_s) / 2;
        if (!(middle_s > low_s && middle_s < high_s))
            break;
        if (plan_within(list, count, overhead_s, middle_s))
            high_s = middle_s;
        else
            low_s = middle_s;
    }
    plan_within(list, count, overhead_s, high_s);
}

struct order_groups order_fuse(const struct order_profile *profile,
                               const struct oracle_network *network)
{
    struct order_groups groups = order_groups_open(profile);
    uint32_t count;
    struct ready *list = ready_sort(profile, network, &count);
    if (count > 0)
        plan_make(list, count, network->overhead_s);
    for (uint32_t i = 0; i < count;)
        for (uint32_t last = list[i].last, group = groups.count; i <= last; i++)
            order_groups_put(&groups, list[i].node, group);
    free(list);
    return groups;
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

static bool groups_replay(const struct order_profile *profile,
                          const struct oracle_network *network, enum order order,
                          const struct order_groups *groups, struct order_row *row_p)
{
    struct order_graph graph = order_graph_open(profile, groups, order == ORDER_BUCKETS);
    struct order_row row = {.name = order_name(order),
                            .in_buckets = order == ORDER_BUCKETS,
                            .order = order,
                            .spans = order_zalloc(graph.count, sizeof *row.spans)};
    struct oracle *oracle = oracle_open(&graph, network);
    if (!oracle) {
        order_row_free(&row);
        return false;
    }
    bool by_tail = order == ORDER_PRIORITY || order == ORDER_PREEMPT;
    row.seconds = oracle_replay(oracle, by_tail ? oracle_tails(oracle) : NULL,
                                order == ORDER_PREEMPT, row.spans);
    const struct oracle_piece *pieces = oracle_pieces(oracle, &row.pieces_count);
    row.pieces = order_zalloc(row.pieces_count, sizeof *pieces);
    memcpy(row.pieces, pieces, row.pieces_count * sizeof *pieces);
    oracle_close(oracle);
    if (groups)
        groups_report(profile, groups, &row);
    *row_p = row;
    return true;
}

bool order_replay(const struct order_profile *profile, const struct order_params *params,
                  enum order order, const struct order_groups *groups,
                  struct order_row *row_p)
{
    if (groups || order != ORDER_BUCKETS)
        return groups_replay(profile, &params->network, order, groups, row_p);
    struct order_groups buckets = order_buckets(profile, params);
    bool possible = groups_replay(profile, &params->network, order, &buckets, row_p);
    order_groups_close(&buckets);
    return possible;
}

void order_row_free(struct order_row *row)
{
    free(row->spans);
    free(row->pieces);
    *row = (struct order_row){.seconds = 0};
}
