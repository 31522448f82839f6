/* SPDX-License-Identifier: Apache-2.0 */
/* Adds gradients over replicas for the oracle, in one process.
 *
 * The one idea: an all-reduce is a fold over a tree. The sum at a replica is its own
 * term, plus the sums of its children in the order of their numbers, rounded after each
 * addition. Elements are independent, so the fold runs over short runs of them. */
#include "replay_sum.h"

#include <stdlib.h>
#include <string.h>

#include "pipeline/base/refuse.h"
#include <tryst/sized.h>

/* Elements of a run: the sums of one level of the tree are on the stack. */
enum { RUN_COUNT = 64 };

/* One part of all replicas, and the tree that adds a range of it. */
struct fold {
    const int32_t *parents; /* [count] */
    char **terms;           /* [count]: gradients */
    int count;
    tryst_dtype dtype;
};

union run {
    float f32[RUN_COUNT];
    double f64[RUN_COUNT];
};

static void add(union run *to, const union run *from, uint64_t count, tryst_dtype dtype)
{
    for (uint64_t i = 0; i < count; i++) {
        if (dtype == TRYST_DTYPE_F64) {
            to->f64[i] += from->f64[i];
        } else {
            to->f32[i] += from->f32[i];
        }
    }
}

/* Compute the sum at replica `at` of `count` elements from `first` on. */
static void fold_run(const struct fold *self, int at, uint64_t first, uint64_t count,
                     union run *sum)
{
    size_t bytes = tryst_dtype_bytes(self->dtype);
    union run below;
    memcpy(sum, self->terms[at] + first * bytes, count * bytes);
    for (int child = 0; child < self->count; child++) {
        if (self->parents[child] == at) {
            fold_run(self, child, first, count, &below);
            add(sum, &below, count, self->dtype);
        }
    }
}

/* Replace `count` elements from `first` on by their sum, in all replicas. */
static void fold_range(const struct fold *self, uint64_t first, uint64_t count)
{
    size_t bytes = tryst_dtype_bytes(self->dtype);
    union run sum;
    int root = 0;
    while (self->parents[root] >= 0) {
        root++;
    }
    for (uint64_t done = 0; done < count; done += RUN_COUNT) {
        uint64_t run = count - done < RUN_COUNT ? count - done : RUN_COUNT;
        fold_run(self, root, first + done, run, &sum);
        for (int i = 0; i < self->count; i++) {
            memcpy(self->terms[i] + (first + done) * bytes, &sum, run * bytes);
        }
    }
}

/* The order without params->order: a chain to replica 0, which adds 1, then 2, … */
static void star_write(tryst_coll_order *order, int32_t *parents, uint64_t elements,
                       int count)
{
    order->trees = 1;
    order->first = 0;
    order->count = elements;
    for (int i = 0; i < count; i++) {
        parents[i] = i > 0 ? 0 : -1;
    }
}

static tryst_status fold_part(const tryst_replay_params *params, int32_t stage,
                              struct fold *self, uint64_t elements, int32_t *parents)
{
    const tryst_coll_params sum = {.struct_size = sizeof sum,
                                   .kind = TRYST_COLL_ALLREDUCE,
                                   .reduce = TRYST_REDUCE_SUM,
                                   .count = elements,
                                   .dtype = self->dtype};
    tryst_coll_order order = {.struct_size = sizeof order, .trees = 1};
    uint64_t covered = 0;
    self->parents = parents;
    for (uint32_t tree = 0; tree < order.trees; tree++) {
        tryst_status status = TRYST_OK;
        if (params->order) {
            status = params->order(params->order_arg, stage, &sum, tree, &order, parents);
        } else {
            star_write(&order, parents, elements, self->count);
        }
        if (status != TRYST_OK) {
            return status;
        }
        if (order.first != covered || order.count > elements - covered) {
            break;
        }
        fold_range(self, order.first, order.count);
        covered += order.count;
    }
    return covered == elements
               ? TRYST_OK
               : refuse(TRYST_E_INVALID,
                        "cannot replay: the order of additions covers %llu of the %llu "
                        "elements of a part of stage %d",
                        (unsigned long long)covered, (unsigned long long)elements,
                        (int)stage);
}

/* Describe part `i` of all replicas: set the terms, and the part of the first. */
static tryst_status terms_find(tryst_stage *const *replicas, int32_t i, struct fold *self,
                               tryst_stage_part *first)
{
    for (int r = 0; r < self->count; r++) {
        tryst_stage_part part = {.struct_size = sizeof part};
        tryst_status status = replicas[r]->ops->part(replicas[r], i, &part);
        if (status != TRYST_OK) {
            return status;
        }
        *first = r == 0 ? part : *first;
        if (part.count != first->count || part.dtype != first->dtype) {
            return refuse(TRYST_E_INVALID,
                          "cannot replay: part %d differs between replicas 0 and %d",
                          (int)i, r);
        }
        self->terms[r] = part.gradient;
    }
    self->dtype = first->dtype;
    return TRYST_OK;
}

static bool has_parts(const tryst_stage *stage)
{
    return TRYST_SIZED_HAS(stage->ops, tryst_stage_ops, part) &&
           stage->ops->parts_count && stage->ops->part;
}

tryst_status replay_sum(const tryst_replay_params *params, int32_t stage,
                        tryst_stage *const *replicas, int count)
{
    struct fold self = {.terms = calloc((size_t)count, sizeof(char *)), .count = count};
    int32_t *parents = calloc((size_t)count, sizeof *parents);
    tryst_status status = self.terms && parents ? TRYST_OK : TRYST_E_NOMEM;
    for (int r = 0; r < count && status == TRYST_OK; r++) {
        status = has_parts(replicas[r])
                     ? TRYST_OK
                     : refuse(TRYST_E_UNSUPPORTED,
                              "cannot replay: stage %d is replicated, but has no parts",
                              (int)stage);
    }
    for (int32_t i = 0;
         status == TRYST_OK && i < replicas[0]->ops->parts_count(replicas[0]); i++) {
        tryst_stage_part part = {.struct_size = sizeof part};
        status = terms_find(replicas, i, &self, &part);
        if (status == TRYST_OK) {
            status = fold_part(params, stage, &self, part.count, parents);
        }
    }
    free(self.terms);
    free(parents);
    return status;
}
