/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The solvers' shared state: the rows, the pool of columns, the oracle and its bound.
 *
 * One idea: a solver calls the oracle with prices of rows (≥ 0, sum 1) and receives, for
 * each group, the cheapest tree, and a bound that holds for every plan. Only plan_work.c
 * deals with graphs and arborescences.
 *
 * A *row* is an overlay link, or both directions of a wire if the network is the same in
 * both directions (`mirrored`). Then an undirected tree, used up and down, is as good as
 * any pair of trees, since a plan and its mirror image can be averaged; this halves the
 * rows, and undirected trees are rooted at their centres.
 * A *group* is a set of trees with shares that sum to 1: all trees, or those of one root
 * (all-gather, reduce-scatter).
 * A *column* is a tree (or a pair of trees) with value[row] = weight × load ÷ capacity ×
 * scale. The weight is 1, or 1/n where every rank is a root.
 * Invariant: best_row_price proves `bound`; both only improve. Equal inputs give equal
 * columns.
 */
#ifndef TRYST_TOPOLOGY_PLAN_PLAN_WORK_H
#define TRYST_TOPOLOGY_PLAN_PLAN_WORK_H

#include <stddef.h>

#include "arborescence.h"
#include "plan.h"

struct plan_column {
    uint32_t group, root, depth, values_count;
    uint32_t *rows;
    double *values;
    /** Parents; both may be one array; NULL: the operation lacks this half. */
    uint32_t *down, *up;
    uint64_t hash;     /**< of root and parents */
    double share;      /**< in the current solution */
    double share_kept; /**< in the best solution so far; used by plan_mwu.c */
};

struct plan_work {
    /** Memory of the arrays below and of the columns' arrays, except `columns` and
     *  `index`. */
    struct arrays arrays;
    struct overlay *overlay;
    enum plan_op op;
    uint32_t root; /**< of a broadcast or reduce */
    uint32_t ranks, links, rows, groups;
    bool mirrored, all_roots;
    /** True if a row is a class of links that look alike, and values are means over the
     *  class. */
    bool averaged;
    bool has_down, has_up;
    double weight, scale;

    uint32_t *link_row, *row_links; /**< link → row; row → number of its links */
    /** Cheapest out-trees (of both halves if mirrored); cheapest in-trees, NULL if
     *  mirrored. NULL also for a half that the operation lacks. */
    struct arborescence *down, *up;
    double *price, *load, *cost; /**< by link; by link; ranks × ranks */
    double *row_value;           /**< scratch by row */
    uint32_t *parent[2], *walk;  /**< scratch by rank */

    struct plan_column *columns;
    uint32_t columns_count;
    size_t columns_room;
    uint32_t *index; /**< hash table of columns: number + 1; 0: free */
    uint32_t index_room;

    double *best_row_price; /**< by row */
    double bound;           /**< scaled as the rows' values are */
    uint32_t priced_count;  /**< calls of the oracle */
    struct plan_step steps[PLAN_STEPS];
    uint64_t end_ns; /**< the caller's time limit; 0: none */
};

/** Set up rows, oracle and a first bound for `overlay`. With `averaged` the rows are
 *  classes of links (plan_class.c), few where a network is regular; bounds stay valid,
 *  but times are averages, exact only for plans that load all links of a class equally.
 *  Returns TRYST_OK or TRYST_E_NOMEM. */
tryst_status plan_work_open(struct overlay *overlay, const struct plan_params *params,
                            bool averaged, struct err *err, struct plan_work **work_p);
void plan_work_close(struct plan_work *work);

/** Call the oracle: find the cheapest trees at these prices of rows (≥ 0, sum 1), and
 *  keep bound and prices if the bound is the best so far. Returns the bound of these
 *  prices. */
double plan_work_price(struct plan_work *work, const double *row_price);

/** Call the oracle with prices of links (≥ 0, not all 0), such as those of another
 *  plan_work. Returns the bound of these prices. */
double plan_work_price_links(struct plan_work *work, const double *price);

/** Return the root of the group's cheapest tree at the last prices (plan_work_price). */
uint32_t plan_work_best_root(const struct plan_work *work, uint32_t group);

/** Put the cheapest tree of `root` at the last prices into the pool, or find it there.
 *  Returns TRYST_OK or TRYST_E_NOMEM. */
tryst_status plan_work_add_cheapest(struct plan_work *work, uint32_t root,
                                    uint32_t *column_p);

/** Put a tree into the pool, or find it there. `down` or `up` is NULL for a half that the
 *  operation lacks.
 *  Returns: TRYST_E_INVALID  not a tree of the overlay's edges, or another root or half
 *                            than the operation has
 *           TRYST_E_NOMEM */
tryst_status plan_work_add(struct plan_work *work, uint32_t root, const uint32_t *down,
                           const uint32_t *up, uint32_t *column_p);

/** Return the sum of price × value over the column's rows. */
double plan_column_cost(const struct plan_column *column, const double *row_price);

/** Return the longest time of a row under the columns' shares; write the time of each row
 *  to `value_p` unless it is NULL. */
double plan_work_time(struct plan_work *work, double *value_p);

/** Return the number of columns that have a share. */
uint32_t plan_work_used(const struct plan_work *work);

/** True if the caller's time limit has passed. */
bool plan_work_late(const struct plan_work *work);

#endif
