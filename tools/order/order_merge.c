/* SPDX-License-Identifier: Apache-2.0 */
/* One profile of those of a job's ranks.
 *
 * Idea: to the network, a rank's computation is two times of each operation: how much
 * comes before it (its head), and how much is left after it (its tail). The slowest rank
 * decides both. So the merged step is one computation, as long as the longest of all, cut
 * where an operation has its largest head from the begin, and its largest tail from the
 * end. (Heads and tails are the data of Jackson's problem, oracle.h.)
 *
 * Invariant: head + tail of each operation is at most the length of the computation. */
#include "order_merge.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oracle.h"

/* Operations take no time, so heads and tails are computation alone. */
static const struct oracle_network free_network = {.bytes_per_s = 1e300};

struct merged_op {
    const char *name; /* of its profile */
    uint64_t bytes;
    double head_s, tail_s;
    double use_s;  /* from the begin: when its result is needed */
    uint32_t node; /* in the merged profile */
};

struct ops {
    struct merged_op *of; /* [count], by name */
    uint32_t count;
    double seconds; /* the whole computation */
};

/* ---- one rank ---------------------------------------------------------------------- */

static int by_name(const void *one, const void *other)
{
    return strcmp(((const struct merged_op *)one)->name,
                  ((const struct merged_op *)other)->name);
}

static struct ops ops_read(const struct order_profile *profile)
{
    struct order_graph graph = order_graph_open(profile, NULL);
    struct oracle *oracle = oracle_open(&graph, &free_network);
    struct ops ops = {.of = order_zalloc(profile->count, sizeof *ops.of),
                      .seconds = oracle_bound(oracle)};
    const double *heads = oracle_heads(oracle), *tails = oracle_tails(oracle);
    for (uint32_t i = 0; i < profile->count; i++) {
        const struct order_node *node = &profile->nodes[i];
        if (node->is_operation)
            ops.of[ops.count++] = (struct merged_op){.name = node->name,
                                                     .bytes = node->bytes,
                                                     .head_s = heads[i],
                                                     .tail_s = tails[i]};
    }
    oracle_close(oracle);
    qsort(ops.of, ops.count, sizeof *ops.of, by_name);
    return ops;
}

/* ---- the slowest of all ------------------------------------------------------------ */

/* Join what two ranks have of one operation. */
static bool op_join(struct merged_op *op, const struct merged_op *other)
{
    op->head_s = fmax(op->head_s, other->head_s);
    op->tail_s = fmax(op->tail_s, other->tail_s);
    if (op->bytes != other->bytes)
        fprintf(stderr,
                "tryst-perf: cannot merge profiles: \"%s\" has %" PRIu64
                " bytes in one, and %" PRIu64 " in another one\n",
                op->name, op->bytes, other->bytes);
    return op->bytes == other->bytes;
}

/* Join the operations of `one` to those of all; both are sorted by name. */
static bool ops_join(struct ops *all, const struct ops *one)
{
    bool joined = true;
    struct ops made = {.of =
                           order_zalloc((size_t)all->count + one->count, sizeof *made.of),
                       .seconds = fmax(all->seconds, one->seconds)};
    for (uint32_t i = 0, j = 0; joined && (i < all->count || j < one->count);) {
        int order = i == all->count   ? 1
                    : j == one->count ? -1
                                      : by_name(&all->of[i], &one->of[j]);
        if (order == 0)
            joined = op_join(&all->of[i], &one->of[j]);
        made.of[made.count++] = order <= 0 ? all->of[i] : one->of[j];
        i += order <= 0;
        j += order >= 0;
    }
    free(all->of);
    *all = made;
    return joined;
}

static bool ops_gather(struct order_profile *const *profiles, uint32_t count,
                       struct ops *all_p)
{
    bool joined = true;
    *all_p = ops_read(profiles[0]);
    for (uint32_t i = 1; i < count && joined; i++) {
        struct ops one = ops_read(profiles[i]);
        joined = ops_join(all_p, &one);
        free(one.of);
    }
    return joined;
}

/* Make room for each head and tail, and set when each result is needed. */
static void uses_set(struct ops *all)
{
    for (uint32_t i = 0; i < all->count; i++)
        all->seconds = fmax(all->seconds, all->of[i].head_s + all->of[i].tail_s);
    for (uint32_t i = 0; i < all->count; i++) {
        struct merged_op *op = &all->of[i];
        /* the difference of equal times may be below the head by rounding */
        op->use_s = fmax(all->seconds - op->tail_s, op->head_s);
    }
}

/* ---- the merged profile ------------------------------------------------------------ */

struct timeline {
    struct ops *ops;
    double *cuts;                         /* [2 count + 2], sorted */
    struct merged_op **by_head, **by_use; /* [count] */
    struct order_profile *profile;
};

static int number_compare(const void *one, const void *other)
{
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

static int head_compare(const void *one, const void *other)
{
    const struct merged_op *a = *(struct merged_op *const *)one,
                           *b = *(struct merged_op *const *)other;
    return a->head_s != b->head_s ? (a->head_s > b->head_s ? 1 : -1) : by_name(a, b);
}

static int use_compare(const void *one, const void *other)
{
    const struct merged_op *a = *(struct merged_op *const *)one,
                           *b = *(struct merged_op *const *)other;
    return a->use_s != b->use_s ? (a->use_s > b->use_s ? 1 : -1) : by_name(a, b);
}

static void timeline_open(struct timeline *self)
{
    struct ops *ops = self->ops;
    size_t cuts = 0;
    self->cuts = order_zalloc(2 * (size_t)ops->count + 2, sizeof *self->cuts);
    self->by_head = order_zalloc(ops->count, sizeof(struct merged_op *));
    self->by_use = order_zalloc(ops->count, sizeof(struct merged_op *));
    self->profile = order_zalloc(1, sizeof *self->profile);
    /* an action between two cuts at most */
    self->profile->nodes =
        order_zalloc(3 * (size_t)ops->count + 1, sizeof *self->profile->nodes);
    self->cuts[cuts++] = 0;
    self->cuts[cuts++] = ops->seconds;
    for (uint32_t i = 0; i < ops->count; i++) {
        self->by_head[i] = self->by_use[i] = &ops->of[i];
        self->cuts[cuts++] = ops->of[i].head_s;
        self->cuts[cuts++] = ops->of[i].use_s;
    }
    qsort(self->cuts, cuts, sizeof *self->cuts, number_compare);
    qsort(self->by_head, ops->count, sizeof *self->by_head, head_compare);
    qsort(self->by_use, ops->count, sizeof *self->by_use, use_compare);
}

static void timeline_close(struct timeline *self)
{
    free(self->cuts);
    free(self->by_head);
    free(self->by_use);
}

/* Add a node behind the action `last`, and return its index. */
static uint32_t node_add(struct timeline *self, const char *name, uint32_t last)
{
    uint32_t index = self->profile->count++;
    order_node_name(self->profile, index, name);
    if (last != ORACLE_NONE)
        order_node_after(self->profile, index, last);
    return index;
}

/* Add an operation behind the action `last`. */
static void op_add(struct timeline *self, struct merged_op *op, uint32_t last)
{
    op->node = node_add(self, op->name, last);
    self->profile->nodes[op->node].is_operation = true;
    self->profile->nodes[op->node].bytes = op->bytes;
}

/* Add the computation between two cuts, behind the action `last` and the operations that
 * are needed at the first cut, and return its index. */
static uint32_t action_add(struct timeline *self, double from_s, double to_s,
                           uint32_t number, uint32_t *used_p, uint32_t last)
{
    char name[48];
    snprintf(name, sizeof name, "all ranks;action %" PRIu32, number);
    uint32_t index = node_add(self, name, last);
    self->profile->nodes[index].seconds = to_s - from_s;
    for (; *used_p < self->ops->count && self->by_use[*used_p]->use_s <= from_s;
         ++*used_p)
        order_node_after(self->profile, index, self->by_use[*used_p]->node);
    return index;
}

static void timeline_fill(struct timeline *self)
{
    uint32_t last = ORACLE_NONE, ready = 0, used = 0, actions = 0;
    size_t cuts = 2 * (size_t)self->ops->count + 2;
    for (size_t i = 0; i < cuts; i++) {
        double at_s = self->cuts[i];
        for (; ready < self->ops->count && self->by_head[ready]->head_s <= at_s; ready++)
            op_add(self, self->by_head[ready], last);
        if (i + 1 < cuts && self->cuts[i + 1] > at_s)
            last = action_add(self, at_s, self->cuts[i + 1], actions++, &used, last);
    }
}

struct order_profile *order_merge(struct order_profile *const *profiles, uint32_t count)
{
    struct ops ops;
    struct timeline self = {.ops = &ops};
    if (ops_gather(profiles, count, &ops)) {
        uses_set(&ops);
        timeline_open(&self);
        timeline_fill(&self);
        timeline_close(&self);
        self.profile->origin = profiles[0]->origin;
        self.profile->origin.rank = -1;
    }
    free(ops.of);
    return self.profile;
}
