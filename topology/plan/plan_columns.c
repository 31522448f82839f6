/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Column generation to the optimum, with the LP solver.
 *
 * One idea: the master's prices oscillate long before its time converges, so the oracle
 * is also called at a point between those prices and the best prices so far (P. Wentges
 * 1997). All prices prove a bound, and both calls return columns. Where every row is
 * full, as in a torus, one more column changes little, so each iteration adds several:
 * each tree raises the prices of its rows for the next. The loop ends when time and bound
 * meet, or no column is new.
 * Invariant: afterwards the shares are the master's last optimum, or unchanged if it had
 * none.
 */
#include "plan_columns.h"

#include <math.h>
#include <string.h>

#include "lp.h"

/* Weight of the best prices, against the master's, in an iteration's first call of the
 * oracle. */
#define INWARD 0.7

/* Trees that an iteration adds beside those of its first two calls; 1 + DEARER is the
 * most by which a tree multiplies the price of a row that it fills, for the next tree. */
#define MORE_TREES 16
#define DEARER     0.3

/* With more rows the LP costs more than it gains: a mesh of 64 has 2016 rows, all of them
 * tight, and weights come near the optimum in a second there. Counted, not timed, so that
 * plans repeat. */
#define ROWS_MAX 700
/* An LP with this few rows is always fast. */
#define ROWS_FEW 200
/* With more rows for each rank a network is a mesh and all its rows are tight (a torus
 * has 2 or 4 for each rank, a switch 1 or 2). */
#define ROWS_DENSE 10
#define PIVOT_WORK 4e6 /* limit of pivots × rows, over all solves */

struct generation {
    struct arrays arrays;
    struct plan_work *work;
    struct lp *lp;
    /* By row: the master's prices; prices between these and the best ones. */
    double *price, *between;
    uint32_t known; /* the pool's first `known` columns are in the master */
};

static tryst_status generation_init(struct generation *generation, struct plan_work *work)
{
    *generation = (struct generation){.work = work};
    struct arrays *arrays = &generation->arrays;
    generation->price = arrays_alloc(arrays, work->rows, sizeof *generation->price);
    generation->between = arrays_alloc(arrays, work->rows, sizeof *generation->between);
    return arrays->status ? arrays->status
                          : lp_open(work->rows, work->groups,
                                    (uint32_t)(PIVOT_WORK / work->rows), &generation->lp);
}

static tryst_status columns_hand_in(struct generation *generation)
{
    for (; generation->known < generation->work->columns_count; generation->known++) {
        const struct plan_column *column = &generation->work->columns[generation->known];
        tryst_status status =
            lp_column_add(generation->lp, column->group, column->values_count,
                          column->rows, column->values);
        if (status)
            return status;
    }
    return TRYST_OK;
}

/* Put each group's cheapest tree at these prices into the pool; multiply the prices of
 * the rows that it loads by up to 1 + `dearer`. */
static tryst_status trees_price_add(struct plan_work *work, double *row_price,
                                    double dearer)
{
    plan_work_price(work, row_price);
    for (uint32_t group = 0; group < work->groups; group++) {
        uint32_t number;
        tryst_status status =
            plan_work_add_cheapest(work, plan_work_best_root(work, group), &number);
        if (status)
            return status;
        const struct plan_column *column = &work->columns[number];
        for (uint32_t i = 0; i < column->values_count; i++)
            row_price[column->rows[i]] *= 1 + dearer * fmin(1, column->values[i]);
    }
    return TRYST_OK;
}

/* Scale prices to sum 1. All become positive, since multiplication could not raise a
 * price of 0. */
static void prices_scale(const struct plan_work *work, double *row_price)
{
    double sum = 0, least = 1e-3 / work->rows;
    for (uint32_t i = 0; i < work->rows; i++)
        sum += row_price[i] += least;
    for (uint32_t i = 0; i < work->rows; i++)
        row_price[i] /= sum;
}

/* Add an iteration's columns: at prices between the master's and the best, then at the
 * master's. */
static tryst_status columns_add_all(struct generation *generation)
{
    struct plan_work *work = generation->work;
    double *price = generation->price, *between = generation->between;
    lp_prices(generation->lp, price);
    for (uint32_t i = 0; i < work->rows; i++)
        between[i] = INWARD * work->best_row_price[i] + (1 - INWARD) * price[i];
    tryst_status status = trees_price_add(work, between, 0);
    if (!status)
        status = trees_price_add(work, price, DEARER);
    /* with classes the rows are few: further trees would gain nothing */
    uint32_t most = work->averaged ? 0 : MORE_TREES;
    for (uint32_t more = work->groups; more <= most && !status; more += work->groups) {
        prices_scale(work, price);
        status = trees_price_add(work, price, DEARER);
    }
    return status;
}

static void shares_set(struct generation *generation)
{
    for (uint32_t i = 0; i < generation->work->columns_count; i++)
        generation->work->columns[i].share =
            i < generation->known ? lp_share(generation->lp, i) : 0;
}

static tryst_status generate(struct generation *generation, double gap,
                             uint32_t calls_max)
{
    struct plan_work *work = generation->work;
    uint32_t calls_end = work->priced_count + calls_max;
    memcpy(generation->price, work->best_row_price,
           work->rows * sizeof *generation->price);
    tryst_status status = trees_price_add(work, generation->price, 0);
    while (!status) {
        status = columns_hand_in(generation);
        if (status)
            return status;
        if (!lp_solve(generation->lp))
            return TRYST_OK; /* given up: the shares of the previous solve stay */
        shares_set(generation);
        double time = lp_time(generation->lp);
        if (time - work->bound <= gap * time || work->priced_count >= calls_end ||
            plan_work_late(work))
            return TRYST_OK;
        status = columns_add_all(generation);
        if (work->columns_count == generation->known)
            break; /* no tree is better than those in the master */
    }
    return status;
}

static bool rows_few(const struct plan_work *work)
{
    uint32_t most =
        ROWS_DENSE * work->ranks > ROWS_FEW ? ROWS_DENSE * work->ranks : ROWS_FEW;
    return work->rows > 0 && work->rows <= ROWS_MAX && work->rows <= most;
}

tryst_status plan_columns(struct plan_work *work, double gap, uint32_t calls_max)
{
    struct generation generation;
    if (!rows_few(work))
        return TRYST_OK;
    tryst_status status = generation_init(&generation, work);
    if (!status)
        status = generate(&generation, gap, calls_max);
    lp_close(generation.lp);
    arrays_free(&generation.arrays);
    return status;
}
