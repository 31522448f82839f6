/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the solvers of a plan share: the rows, the pool of columns, the oracle and its proof.
 *
 * One idea: a solver only ever hands in weights on rows (≥ 0, sum 1) and gets back, for each group, the
 * cheapest tree there is, and a bound that holds for every plan; all that is known of graphs
 * and arborescences is here.
 *
 * A *row* is an overlay link, or both directions of a wire where the network looks the same both ways
 * (`mirrored`): then an undirected tree, used up and down, is as good as any pair of trees, since
 * a plan and its mirror image can be averaged; half of the rows go, and a tree may be rooted at its centre.
 * A *group* is a set of trees whose shares sum to 1: one, or one for each root (all-gather).
 * A *column* is a tree (or a pair) with value[row] = weight × load ÷ capacity × scale, weight being 1 or
 * 1/n where every rank is a root.
 * Invariant: `bound` is what best_price proves; both only get better. Equal inputs give equal columns.
 * Callers: plan.c and the solvers: plan_mwu, plan_columns, plan_seed, plan_mend, plan_simplify and its parts.
 */
#ifndef TRYST_TOPOLOGY_PLAN_WORK_H
#define TRYST_TOPOLOGY_PLAN_WORK_H

#include <stddef.h>

#include "arborescence.h"
#include "plan.h"

struct plan_column {
    uint32_t group, root, depth, values_count;
    uint32_t *rows;
    double *values;
    uint32_t *down,
        *up;       /* parents; `up` may be `down`; NULL: the operation has no such half */
    uint64_t hash; /* of root and parents */
    double share;  /* the current solution's */
    double share_kept; /* plan_mwu.c: of the best that was seen */
};

struct plan_work {
    struct arrays arrays; /* all below, and the columns', but what grows */
    struct overlay *overlay;
    enum plan_op op;
    uint32_t root; /* broadcast, reduce */
    uint32_t ranks, links, rows, groups;
    bool mirrored, all_roots;
    bool
        averaged; /* a row is a class of links that look alike, and values are means over it */
    bool has_down, has_up;
    double weight, scale;

    uint32_t *link_row, *row_links; /* link → row; row → how many links it stands for */
    struct arborescence *down, *up;
    double *price, *load, *cost; /* by link, by link, ranks × ranks */
    double *row_value;           /* scratch by row */
    uint32_t *parent[2], *walk;  /* scratch by rank */

    struct plan_column *columns;
    uint32_t columns_count;
    size_t columns_room;
    uint32_t *index; /* hash table: column + 1, 0: free */
    uint32_t index_room;

    double *best_row_price; /* by row */
    double bound;           /* scaled as the rows' values are */
    uint32_t priced_count;
    struct plan_step steps[PLAN_STEPS];
    double
        effort; /* 1; less where a previous plan is to be mended quickly: scales all that is counted */
    uint64_t end_ns; /* 0: none */
};

/** With `averaged` the rows are classes (plan_class.c): few where a network is regular. Bounds stay bounds;
 *  times are those of averages, which only a plan that wears all links of a class alike has. */
tryst_status plan_work_open(struct overlay *overlay, const struct plan_params *params,
                            bool averaged, struct err *err, struct plan_work **work_p);
void plan_work_close(struct plan_work *work);

/** Prices the rows (≥ 0, sum 1), finds the cheapest trees at these prices, keeps the bound if it is the best.
 *  Returns the bound of these prices. */
double plan_work_price(struct plan_work *work, const double *row_price);

/** The same for prices of links, such as another work's. */
double plan_work_price_links(struct plan_work *work, const double *price);

/** After plan_work_price: the root whose tree is cheapest; with all_roots: the group's. */
uint32_t plan_work_best_root(const struct plan_work *work, uint32_t group);

/** After plan_work_price: the cheapest tree of `root` into the pool. One that is there already is found. */
tryst_status plan_work_take(struct plan_work *work, uint32_t root, uint32_t *column_p);

/** Any tree into the pool; NULL for a half that the operation lacks. TRYST_E_INVALID: not a tree on the overlay. */
tryst_status plan_work_add(struct plan_work *work, uint32_t root, const uint32_t *down,
                           const uint32_t *up, uint32_t *column_p);

/** sum of price × value. */
double plan_column_cost(const struct plan_column *column, const double *row_price);

/** The longest row under the columns' shares; `value_p` (NULL: not wanted) gets all rows. */
double plan_work_time(struct plan_work *work, double *value_p);

/** How many columns have a share. */
uint32_t plan_work_used(const struct plan_work *work);

/** Whether the caller's time is up. */
bool plan_work_late(const struct plan_work *work);

#endif
