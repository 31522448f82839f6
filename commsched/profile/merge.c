/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One profile of those of a job's ranks.
 *
 * Idea: to the network, a rank's computation is two times of each operation: how much
 * comes before it (its head), and how much is left after it (its tail). The slowest rank
 * decides both. So the merged step is one computation, as long as the longest of all, cut
 * where an operation has its largest head from the begin, and its largest tail from the
 * end. (Heads and tails are the data of Jackson's problem, oracle.h.)
 *
 * Invariant: head + tail of each operation is at most the length of the computation.
 */
#include "merge.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "step_graph.h"

/* Operations take no time, so heads and tails are computation alone. */
#define FREE_NETWORK 1e300

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

/* ---- origins ----------------------------------------------------------------------- */

static const char *source_of(const struct tryst_profile *profile)
{
    return profile->source ? profile->source : "a profile without a file";
}

static bool is_of_one_rank(const struct tryst_profile *profile)
{
    return profile->origin.run && profile->origin.rank >= 0;
}

/* Check that a profile can be one of those of the first one's run; `seen` [size] has the
 * profiles by rank. */
static tryst_status origin_check(const struct tryst_profile *first,
                                 const struct tryst_profile *profile,
                                 const struct tryst_profile **seen, struct err *err)
{
    struct origin origin = profile->origin, wanted = first->origin;
    if (!is_of_one_rank(profile))
        return err_set(err, TRYST_E_INVALID,
                       "cannot merge %s with %s: %s has no \"run\" and \"rank\"; record "
                       "all ranks in one run (TRYST_PROFILE)",
                       source_of(profile), source_of(first), source_of(profile));
    if (origin.run != wanted.run || origin.size != wanted.size)
        return err_set(err, TRYST_E_INVALID,
                       "cannot merge %s (rank %d of %d) with %s (rank %d of %d): the "
                       "files are of two runs; record all ranks in one run, and remove "
                       "the files of others",
                       source_of(profile), origin.rank, origin.size, source_of(first),
                       wanted.rank, wanted.size);
    if (seen[origin.rank])
        return err_set(err, TRYST_E_INVALID,
                       "cannot merge %s with %s: both are of rank %d; give the file of "
                       "each rank once",
                       source_of(profile), source_of(seen[origin.rank]), origin.rank);
    seen[origin.rank] = profile;
    return TRYST_OK;
}

static tryst_status missing_check(const struct tryst_profile *first,
                                  const struct tryst_profile *const *seen,
                                  struct err *err)
{
    for (int32_t rank = 0; rank < first->origin.size; rank++)
        if (!seen[rank])
            return err_set(err, TRYST_E_INVALID,
                           "cannot merge profiles: %s is of a run of %d ranks, and the "
                           "profile of rank %d is missing; give those of all ranks",
                           source_of(first), first->origin.size, rank);
    return TRYST_OK;
}

/* Check that the profiles are those of all ranks of one run, once each. Profiles of which
 * none has an origin are the caller's choice. */
static tryst_status origins_check(struct tryst_profile *const *profiles, uint32_t count,
                                  struct err *err)
{
    const struct tryst_profile *first = NULL;
    tryst_status status = TRYST_OK;
    for (uint32_t i = 0; i < count && !first; i++)
        if (is_of_one_rank(profiles[i]))
            first = profiles[i];
    if (!first)
        return TRYST_OK;
    const struct tryst_profile **seen =
        mem_zalloc_array((size_t)first->origin.size, sizeof(struct tryst_profile *));
    if (!seen)
        return err_set(err, TRYST_E_NOMEM, "cannot merge profiles: out of memory");
    for (uint32_t i = 0; i < count && status == TRYST_OK; i++)
        status = origin_check(first, profiles[i], seen, err);
    if (status == TRYST_OK)
        status = missing_check(first, seen, err);
    mem_free(seen);
    return status;
}

/* ---- one rank ---------------------------------------------------------------------- */

static int by_name(const void *one, const void *other)
{
    return strcmp(((const struct merged_op *)one)->name,
                  ((const struct merged_op *)other)->name);
}

static tryst_status ops_read(struct tryst_profile *profile, struct err *err,
                             struct ops *ops_p)
{
    tryst_profile_params params = {.struct_size = sizeof params,
                                   .bytes_per_s = FREE_NETWORK};
    tryst_status status = step_graph_open(profile, &params, NULL, false, err, NULL);
    if (status != TRYST_OK)
        return status;
    struct ops ops = {.seconds = oracle_bound(profile->oracle)};
    const double *heads = oracle_heads(profile->oracle),
                 *tails = oracle_tails(profile->oracle);
    ops.of = mem_zalloc_array(profile->nodes_count + 1u, sizeof *ops.of);
    if (!ops.of)
        return err_set(err, TRYST_E_NOMEM, "cannot merge profiles: out of memory");
    for (uint32_t i = 0; i < profile->nodes_count; i++) {
        const struct profile_node *node = &profile->nodes[i];
        if (node->is_operation)
            ops.of[ops.count++] = (struct merged_op){.name = node->name,
                                                     .bytes = node->bytes,
                                                     .head_s = heads[i],
                                                     .tail_s = tails[i]};
    }
    qsort(ops.of, ops.count, sizeof *ops.of, by_name);
    *ops_p = ops;
    return TRYST_OK;
}

/* ---- the slowest of all ------------------------------------------------------------ */

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* Join what two ranks have of one operation. */
static tryst_status op_join(struct merged_op *op, const struct merged_op *other,
                            struct err *err)
{
    if (op->bytes != other->bytes)
        return err_set(err, TRYST_E_INVALID,
                       "cannot merge profiles: \"%s\" has %" PRIu64
                       " bytes in one, and %" PRIu64 " in another one",
                       op->name, op->bytes, other->bytes);
    op->head_s = larger(op->head_s, other->head_s);
    op->tail_s = larger(op->tail_s, other->tail_s);
    return TRYST_OK;
}

/* Join the operations of `one` to those of all; both are sorted by name. */
static tryst_status ops_join(struct ops *all, const struct ops *one, struct err *err)
{
    struct ops made = {.seconds = larger(all->seconds, one->seconds)};
    tryst_status status = TRYST_OK;
    made.of = mem_zalloc_array((size_t)all->count + one->count + 1, sizeof *made.of);
    if (!made.of)
        return err_set(err, TRYST_E_NOMEM, "cannot merge profiles: out of memory");
    for (uint32_t i = 0, j = 0; i < all->count || j < one->count;) {
        int order = i == all->count   ? 1
                    : j == one->count ? -1
                                      : by_name(&all->of[i], &one->of[j]);
        if (order == 0)
            status = op_join(&all->of[i], &one->of[j], err);
        if (status != TRYST_OK)
            break;
        made.of[made.count++] = order <= 0 ? all->of[i] : one->of[j];
        i += order <= 0;
        j += order >= 0;
    }
    mem_free(all->of);
    *all = made;
    return status;
}

static tryst_status ops_gather(struct tryst_profile *const *profiles, uint32_t count,
                               struct err *err, struct ops *all_p)
{
    tryst_status status = ops_read(profiles[0], err, all_p);
    for (uint32_t i = 1; i < count && status == TRYST_OK; i++) {
        struct ops one = {.count = 0};
        status = ops_read(profiles[i], err, &one);
        if (status == TRYST_OK)
            status = ops_join(all_p, &one, err);
        mem_free(one.of);
    }
    return status;
}

/* Make room for each head and tail, and set when each result is needed. */
static void uses_set(struct ops *all)
{
    for (uint32_t i = 0; i < all->count; i++)
        all->seconds = larger(all->seconds, all->of[i].head_s + all->of[i].tail_s);
    for (uint32_t i = 0; i < all->count; i++) {
        struct merged_op *op = &all->of[i];
        /* the difference of equal times may be below the head by rounding */
        op->use_s = larger(all->seconds - op->tail_s, op->head_s);
    }
}

/* ---- the merged profile ------------------------------------------------------------ */

struct timeline {
    struct ops *ops;
    double *cuts;                         /* [2 count + 2], sorted */
    struct merged_op **by_head, **by_use; /* [count] */
    struct tryst_profile *profile;
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

static bool timeline_open(struct timeline *self)
{
    struct ops *ops = self->ops;
    size_t cuts = 0;
    self->cuts = mem_zalloc_array(2 * (size_t)ops->count + 2, sizeof *self->cuts);
    self->by_head = mem_zalloc_array(ops->count + 1u, sizeof(struct merged_op *));
    self->by_use = mem_zalloc_array(ops->count + 1u, sizeof(struct merged_op *));
    self->profile = profile_open();
    if (!self->cuts || !self->by_head || !self->by_use || !self->profile)
        return false;
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
    return true;
}

static void timeline_close(struct timeline *self)
{
    mem_free(self->cuts);
    mem_free(self->by_head);
    mem_free(self->by_use);
}

/* Add an operation behind the action `last`. */
static bool op_add(struct timeline *self, struct merged_op *op, uint32_t last)
{
    op->node = self->profile->nodes_count;
    struct profile_node *node = profile_node_add(self->profile, op->name);
    if (!node)
        return false;
    node->is_operation = true;
    node->bytes = op->bytes;
    return last == ORACLE_NONE || profile_after_add(self->profile, op->node, last);
}

/* Add the computation between two cuts, behind the action `*last_p` and the operations
 * that are needed at the first cut. */
static bool action_add(struct timeline *self, double from_s, double to_s, uint32_t number,
                       uint32_t *used_p, uint32_t *last_p)
{
    char name[48];
    uint32_t index = self->profile->nodes_count;
    snprintf(name, sizeof name, "all ranks;action %" PRIu32, number);
    struct profile_node *node = profile_node_add(self->profile, name);
    if (!node)
        return false;
    node->seconds = to_s - from_s;
    bool added =
        *last_p == ORACLE_NONE || profile_after_add(self->profile, index, *last_p);
    for (; added && *used_p < self->ops->count && self->by_use[*used_p]->use_s <= from_s;
         ++*used_p)
        added = profile_after_add(self->profile, index, self->by_use[*used_p]->node);
    *last_p = index;
    return added;
}

static bool timeline_fill(struct timeline *self)
{
    uint32_t last = ORACLE_NONE, ready = 0, used = 0, actions = 0;
    size_t cuts = 2 * (size_t)self->ops->count + 2;
    for (size_t i = 0; i < cuts; i++) {
        double at_s = self->cuts[i];
        for (; ready < self->ops->count && self->by_head[ready]->head_s <= at_s; ready++)
            if (!op_add(self, self->by_head[ready], last))
                return false;
        if (i + 1 < cuts && self->cuts[i + 1] > at_s &&
            !action_add(self, at_s, self->cuts[i + 1], actions++, &used, &last))
            return false;
    }
    return true;
}

tryst_status profile_merge(struct tryst_profile *const *profiles, uint32_t count,
                           struct err *err, struct tryst_profile **merged_p)
{
    struct ops ops = {.count = 0};
    struct timeline self = {.ops = &ops};
    tryst_status status = origins_check(profiles, count, err);
    if (status == TRYST_OK)
        status = ops_gather(profiles, count, err, &ops);
    uses_set(&ops);
    if (status == TRYST_OK && !(timeline_open(&self) && timeline_fill(&self)))
        status = err_set(err, TRYST_E_NOMEM, "cannot merge profiles: out of memory");
    timeline_close(&self);
    mem_free(ops.of);
    if (status == TRYST_OK) {
        self.profile->origin = profiles[0]->origin;
        self.profile->origin.rank = -1;
        *merged_p = self.profile;
    } else
        profile_close(self.profile);
    return status;
}
