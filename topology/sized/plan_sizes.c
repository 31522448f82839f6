/* SPDX-License-Identifier: Apache-2.0 */
/* Plans by size; see plan_sizes.h. candidates.c makes the sets of trees. */
#include "plan_sizes.h"

#include <math.h>
#include <string.h>

#include "candidates.h"
#include "core/memory/alloc.h"
#include "core/text/hash.h"

/* A set with more trees must be faster by WORTH_SET, and by WORTH_TREE for each further
 * tree. For 256 MiB on a star of 64 ranks the prediction for 32 trees is 1.4 % less than
 * that for 2; in simulation (tests/sim) 32 trees take 1.18 of the bound and 2 take
 * 1.03. */
#define WORTH_SET  2e-3
#define WORTH_TREE 5e-4
/* A slice above PLAN_SLICE_BYTES must be faster by this part: what is urgent waits for
 * fewer bytes in flight while slices are small. */
#define WORTH_SLICE 5e-3

/* A size's trees serve operations up to about the geometric mean with the next size. */
const struct plan_size_step plan_size_steps[PLAN_SIZES] = {
    {4ul << 10, 16ul << 10},  {64ul << 10, 256ul << 10}, {1ul << 20, 4ul << 20},
    {16ul << 20, 32ul << 20}, {64ul << 20, 128ul << 20}, {256ul << 20, UINT64_MAX},
};

static const struct tree_overheads overheads = {PLAN_SLICE_S, PLAN_FLOW_S, PLAN_CROWDED,
                                                PLAN_SLICE_WIRE_BYTES};

/* Predicted times of a set of trees. */
struct price {
    double s[PLAN_SIZES];             /* by size: the time with the best slice */
    uint32_t slice_bytes[PLAN_SIZES]; /* by size: the best slice */
    double s_per_byte;                /* the busiest link's time for a byte */
    double flows;                     /* as in tree_measure */
};

/* ---- prices ------------------------------------------------------------------------ */

/* Return the least slice of the largest tree with which the smallest one has
 * PLAN_SLICE_BYTES_THIN. */
static uint32_t slice_least(const struct tree_measure *measure)
{
    double thin = measure->part_least / measure->part_most * (1 + 1e-9);
    uint32_t slice = PLAN_SLICE_BYTES_MIN;
    while (slice < PLAN_SLICE_BYTES_MAX && slice * thin < PLAN_SLICE_BYTES_THIN)
        slice *= 2;
    return slice;
}

/* Return the largest slice of the largest tree: no slice of the set takes longer than
 * PLAN_SLICE_TIME_S on a link, except the least one up to PLAN_SLICE_BYTES. */
static double slice_most(const struct tree_measure *measure, uint32_t least)
{
    double bytes = PLAN_SLICE_TIME_S * measure->part_most / measure->slice;
    bytes = fmin(bytes, PLAN_SLICE_BYTES_MAX);
    return least > PLAN_SLICE_BYTES ? bytes : fmax(bytes, least);
}

/* Return the limit for the time with a slice, as a factor of the best time so far. */
static double worth_slice(uint32_t slice)
{
    return slice > PLAN_SLICE_BYTES ? 1 - WORTH_SLICE : 1;
}

static void price_update(struct price *price, const struct tree_measure *measure)
{
    uint32_t least = measure->routed ? slice_least(measure) : PLAN_SLICE_BYTES_MIN;
    double most = measure->routed ? slice_most(measure, least) : 0;
    for (uint32_t s = 0; s < PLAN_SIZES; s++)
        for (uint32_t slice = least; slice <= most; slice *= 2) {
            double time_s = tree_measure_time(measure, (double)plan_size_steps[s].bytes,
                                              slice, &overheads);
            if (!(time_s < price->s[s] * worth_slice(slice)))
                continue;
            price->s[s] = time_s;
            price->slice_bytes[s] = slice;
        }
    price->s_per_byte = measure->link;
    price->flows = measure->flows;
}

static void price_find(struct tree_costing *costing, const struct candidate *candidate,
                       struct price *price)
{
    struct tree_set set = {candidate->trees, candidate->count, false};
    for (uint32_t s = 0; s < PLAN_SIZES; s++)
        price->s[s] = INFINITY;
    struct tree_measure measure = tree_costing_measure(costing, &set);
    price_update(price, &measure);
    if (candidate->count != 1 || !measure.routed)
        return;
    set.in_turn = true;
    measure = tree_costing_measure(costing, &set);
    price_update(price, &measure);
}

static tryst_status prices_find(struct overlay *overlay, const struct plan *plan,
                                double sum_bytes_per_s,
                                const struct candidates *candidates, struct price *prices)
{
    struct tree_costing costing;
    tryst_status status = tree_costing_init(&costing, overlay, plan->op,
                                            candidates->trees_max, sum_bytes_per_s);
    for (uint32_t k = 0; !status && k < candidates->count; k++)
        price_find(&costing, &candidates->sets[k], &prices[k]);
    tree_costing_free(&costing);
    return status;
}

/* ---- choice ------------------------------------------------------------------------ */

/* Return the position of a tree in a set; set->count if it is not there. */
static uint32_t tree_find(const struct candidate *set, const struct plan_tree *tree,
                          uint32_t n)
{
    uint32_t k = 0;
    while (k < set->count && !plan_tree_same(&set->trees[k], tree, n))
        k++;
    return k;
}

/* Return the limit for the time of a set of `count` trees, as a factor of the time of the
 * best set so far, which has `best` trees. */
static double worth(uint32_t count, uint32_t best)
{
    double more = (double)count - (double)best;
    double part = fmin(WORTH_SET + WORTH_TREE * fabs(more), 0.5);
    return more > 0 ? 1 - part : more < 0 ? 1 + part : 1;
}

/* Choose the set for one size. If a set lacks tree 0, the idle flows of tree 0 count in
 * the set's time. */
static uint32_t size_choose(const struct candidates *candidates,
                            const struct price *prices, uint32_t first, uint32_t s,
                            uint32_t n, double *time_s_p)
{
    const struct plan_tree *tree = &candidates->sets[first].trees[0];
    double best_s = INFINITY;
    uint32_t best = first;
    for (uint32_t k = 0; k < candidates->count; k++) {
        const struct candidate *set = &candidates->sets[k];
        double time_s = prices[k].s[s];
        if (tree_find(set, tree, n) == set->count)
            time_s += prices[first].flows * PLAN_FLOW_S;
        if (!(time_s < best_s * worth(set->count, candidates->sets[best].count)))
            continue;
        best_s = time_s;
        best = k;
    }
    *time_s_p = best_s;
    return best;
}

/* True if no size exceeds its limit by more than PLAN_LIMIT_SLACK, with the single tree
 * of set `first` as tree 0. */
static bool first_within(const struct candidates *candidates, const struct price *prices,
                         uint32_t first, uint32_t n, const double *limits_s)
{
    double time_s = prices[first].s[0];
    bool within = time_s <= limits_s[0] * (1 + PLAN_LIMIT_SLACK);
    for (uint32_t s = 1; within && s < PLAN_SIZES; s++) {
        (void)size_choose(candidates, prices, first, s, n, &time_s);
        within = time_s <= limits_s[s] * (1 + PLAN_LIMIT_SLACK);
    }
    return within;
}

/* Return the set of the single tree that is best for the smallest size, if possible
 * within the limits. */
static uint32_t first_choose(const struct candidates *candidates,
                             const struct price *prices, uint32_t n,
                             const double *limits_s)
{
    uint32_t best = GRAPH_NONE;
    for (uint32_t k = 0; k < candidates->count; k++)
        if (candidates->sets[k].count == 1 &&
            (best == GRAPH_NONE || prices[k].s[0] < prices[best].s[0]) &&
            (!limits_s || first_within(candidates, prices, k, n, limits_s)))
            best = k;
    return best == GRAPH_NONE && limits_s ? first_choose(candidates, prices, n, NULL)
                                          : best;
}

/* ---- time of a size ---------------------------------------------------------------- */

static double set_time(struct tree_costing *costing, const struct tree_set *set,
                       const struct plan_size *size)
{
    struct tree_measure measure = tree_costing_measure(costing, set);
    return tree_measure_time(&measure, (double)size->bytes, size->slice_bytes,
                             &overheads);
}

/* Return the overhead of tree 0's flows if tree 0 carries nothing, else 0; INFINITY if an
 * edge of an idle tree 0 has no route. */
static double idle_time(struct tree_costing *costing, const struct plan_size *size)
{
    struct tree_set set = {size->trees, 1, false};
    if (size->trees[0].share > 0)
        return 0;
    struct tree_measure measure = tree_costing_measure(costing, &set);
    return measure.routed ? measure.flows * overheads.flow_s : INFINITY;
}

double plan_size_time(struct tree_costing *costing, const struct plan_size *size)
{
    uint32_t idle = !(size->trees[0].share > 0);
    struct tree_set set = {size->trees + idle, size->trees_count - idle, false};
    double time_s = set_time(costing, &set, size);
    set.in_turn = true;
    if (set.count == 1 && isfinite(time_s))
        time_s = fmin(time_s, set_time(costing, &set, size));
    return time_s + idle_time(costing, size);
}

/* ---- result ------------------------------------------------------------------------ */

static void tree_copy(struct plan_sizes *sizes, const struct plan_tree *from,
                      double share, struct plan_tree *tree)
{
    uint32_t n = sizes->ranks_count;
    *tree = *from;
    tree->share = share;
    tree->broadcast_parent =
        arrays_copy(&sizes->arrays, from->broadcast_parent, n, sizeof n);
    tree->reduce_parent = arrays_copy(&sizes->arrays, from->reduce_parent, n, sizeof n);
}

/* Put tree 0 in front, with its share in the set or 0, then the set's other trees by
 * descending share. */
static void size_fill(struct plan_sizes *sizes, struct plan_size *size,
                      const struct candidate *set, const struct plan_tree *first)
{
    uint32_t n = sizes->ranks_count, at = tree_find(set, first, n);
    size->trees = arrays_alloc(&sizes->arrays, set->count + 1, sizeof *size->trees);
    if (!size->trees)
        return;
    tree_copy(sizes, first, at < set->count ? set->trees[at].share : 0, &size->trees[0]);
    size->trees_count = 1;
    for (uint32_t k = 0; k < set->count; k++)
        if (k != at)
            tree_copy(sizes, &set->trees[k], set->trees[k].share,
                      &size->trees[size->trees_count++]);
    for (uint32_t k = 0; k < size->trees_count; k++)
        if (size->trees[k].share > 0 && size->trees[k].depth > size->depth)
            size->depth = size->trees[k].depth;
}

tryst_status plan_sizes_digest(struct plan_sizes *sizes, uint64_t digest)
{
    struct hash_stream *stream;
    tryst_status status = hash_stream_open(&stream);
    if (status)
        return status;
    hash_stream_add(stream, &digest, sizeof digest);
    for (uint32_t s = 0; s < sizes->count; s++) {
        const struct plan_size *size = &sizes->sizes[s];
        const uint64_t head[3] = {size->bytes_max, size->slice_bytes, size->trees_count};
        hash_stream_add(stream, head, sizeof head);
        for (uint32_t t = 0; t < size->trees_count; t++)
            plan_tree_hash(stream, &size->trees[t], sizes->ranks_count);
    }
    sizes->digest = hash_stream_digest(stream).low;
    hash_stream_close(stream);
    return TRYST_OK;
}

static tryst_status sizes_fill(struct plan_sizes *sizes, struct overlay *overlay,
                               const struct plan *plan, double sum_bytes_per_s,
                               const double *limits_s)
{
    struct candidates candidates = {.overlay = overlay, .plan = plan};
    tryst_status status = candidates_make(&candidates);
    struct price *prices = NULL;
    if (!status)
        prices = arrays_alloc(&candidates.arrays, candidates.count, sizeof *prices);
    if (!status && !prices)
        status = TRYST_E_NOMEM;
    if (!status)
        status = prices_find(overlay, plan, sum_bytes_per_s, &candidates, prices);
    uint32_t first =
        status ? 0 : first_choose(&candidates, prices, sizes->ranks_count, limits_s);
    for (uint32_t s = 0; !status && s < PLAN_SIZES; s++) {
        struct plan_size *size = &sizes->sizes[sizes->count++];
        uint32_t k = size_choose(&candidates, prices, first, s, sizes->ranks_count,
                                 &size->predicted_s);
        if (s == 0) {
            k = first;
            size->predicted_s = prices[first].s[0];
        }
        size->bytes = plan_size_steps[s].bytes;
        size->bytes_max = plan_size_steps[s].bytes_max;
        size->slice_bytes = prices[k].slice_bytes[s];
        size->s_per_byte = prices[k].s_per_byte;
        size_fill(sizes, size, &candidates.sets[k], &candidates.sets[first].trees[0]);
    }
    candidates_free(&candidates);
    return status ? status : sizes->arrays.status;
}

tryst_status plan_sizes_open_within(struct overlay *overlay, const struct plan *plan,
                                    double sum_bytes_per_s,
                                    const double limits_s[PLAN_SIZES], struct err *err,
                                    struct plan_sizes **sizes_p)
{
    struct plan_sizes *sizes = mem_zalloc(sizeof *sizes);
    bool all_roots = plan->op == PLAN_ALLGATHER || plan->op == PLAN_REDUCE_SCATTER;
    tryst_status status = sizes ? TRYST_OK : TRYST_E_NOMEM;
    if (!status) {
        sizes->op = plan->op;
        sizes->ranks_count = plan->ranks_count;
        sizes->bound_s_per_byte = plan->bound_s_per_byte;
        if (!all_roots && plan->ranks_count > 1)
            status = sizes_fill(sizes, overlay, plan, sum_bytes_per_s, limits_s);
    }
    if (!status)
        status = plan_sizes_digest(sizes, plan->digest);
    if (status) {
        plan_sizes_close(sizes);
        return err_set(err, status, "cannot choose trees by size: out of memory");
    }
    *sizes_p = sizes;
    return TRYST_OK;
}

tryst_status plan_sizes_open(struct overlay *overlay, const struct plan *plan,
                             double sum_bytes_per_s, struct err *err,
                             struct plan_sizes **sizes_p)
{
    return plan_sizes_open_within(overlay, plan, sum_bytes_per_s, NULL, err, sizes_p);
}

void plan_sizes_close(struct plan_sizes *sizes)
{
    if (sizes)
        arrays_free(&sizes->arrays);
    mem_free(sizes);
}
