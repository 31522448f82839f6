/* SPDX-License-Identifier: Apache-2.0 */
/** @file coll_draw.h
 *  Random plans and terms, the same on all ranks, and the fold that a collective must
 *  yield, bitwise.
 */
#ifndef TRYST_TESTS_COLLECTIVES_COLL_DRAW_H
#define TRYST_TESTS_COLLECTIVES_COLL_DRAW_H

#include "collectives/coll.h"
#include "collectives/tree/edges.h"
#include "collectives/tree/map.h"
#include "core/reduce/reduce.h"

enum { RANKS_MAX = 8, TREES_MAX = RANKS_MAX, CLASSES = 2 };

struct tree_drawn {
    int32_t root, parents[RANKS_MAX], children[RANKS_MAX][RANKS_MAX];
    uint32_t counts[RANKS_MAX];
};

struct plan_drawn {
    struct tree_drawn ups[TREES_MAX], downs[TREES_MAX]; /* of one tree: the same root */
    struct coll_plan plans[RANKS_MAX];
    uint64_t eager_max; /* set by the user: the limit of an exchange */
    struct coll_class classes[RANKS_MAX][CLASSES];
    struct coll_tree_plan parts[RANKS_MAX][CLASSES][TREES_MAX];
};

void plan_draw(struct plan_drawn *drawn, int size, uint64_t seed);

struct terms_drawn {
    tryst_dtype dtype;
    tryst_reduce_op reduce;
    const struct reduce_kernel *kernel;
    size_t element_bytes;
    uint64_t count, seed;
};

/** Write the elements of a rank: numbers of moderate size, whose sums are rounded. */
void terms_fill(const struct terms_drawn *terms, int rank, char *data);
/** Return the factor of a rank (TRYST_REDUCE_PREMULTIPLIED_SUM). */
double terms_factor(int rank);
/** Fold the terms of `rank` and of all ranks below `rank` in a range of each rank's
 *  `own`. `tree`, the tree of rank 0, is rooted at `root`; -1: at the plan's root, or the
 *  ranks exchange their terms. */
void terms_fold(const struct plan_drawn *drawn, const struct terms_drawn *terms,
                const struct coll_tree_plan *tree, int root, int rank,
                struct coll_range range, char *const *own, char *sum);

#endif
