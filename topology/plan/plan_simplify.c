/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a solver's shares to a simple plan: fewer trees, then shallower ones
 * (plan_shallow.c), then round shares (plan_shares.c); the time after each step is
 * recorded.
 *
 * One idea (of fewer trees): the LP's column with the least share is shut and the rest
 * solved again, as long as the time does not rise; plan_seed may also build fewer trees
 * for the same time. With `trees_max` columns are shut until that number is met, and the
 * time may rise.
 * Invariant: the time stays within the larger of the previous time and `time_enough`,
 * unless trees_max requires more.
 */
#include "plan_simplify.h"

#include <math.h>
#include <string.h>

#include "lp.h"
#include "plan_seed.h"
#include "plan_shallow.h"
#include "plan_shares.h"

/* Times from a solver that differ relatively by less are equal. */
#define GRAIN 1e-9
/* Relative difference that another order of summing may cause. */
#define ROUNDING 1e-12
/* Pivots × rows of all solves: about a second; counted, so that plans repeat. */
#define PIVOT_WORK 1e6

struct thinning {
    struct arrays arrays;
    struct plan_work *work;
    struct lp *lp;
    uint32_t *column;     /* LP column → column of the pool */
    bool *shut, *kept;    /* by LP column; kept: without this column the time rose */
    uint32_t *group_open; /* by group: columns that are not shut */
    uint32_t count, open; /* number of LP columns; number of those not shut */
};

static void thinning_wipe(struct thinning *thinning)
{
    lp_close(thinning->lp);
    arrays_free(&thinning->arrays);
}

static tryst_status thinning_init(struct thinning *thinning, struct plan_work *work)
{
    uint32_t count = plan_work_used(work);
    *thinning = (struct thinning){.work = work};
    tryst_status status = lp_open(work->rows, work->groups,
                                  (uint32_t)(PIVOT_WORK / work->rows), &thinning->lp);
    if (status)
        return status;
    thinning->column = arrays_alloc(&thinning->arrays, count, sizeof *thinning->column);
    thinning->shut = arrays_alloc(&thinning->arrays, count, sizeof *thinning->shut);
    thinning->kept = arrays_alloc(&thinning->arrays, count, sizeof *thinning->kept);
    thinning->group_open =
        arrays_alloc(&thinning->arrays, work->groups, sizeof *thinning->group_open);
    if (thinning->arrays.status)
        return TRYST_E_NOMEM;
    for (uint32_t i = 0; i < work->columns_count && !status; i++) {
        const struct plan_column *column = &work->columns[i];
        if (!(column->share > 0))
            continue;
        status = lp_column_add(thinning->lp, column->group, column->values_count,
                               column->rows, column->values);
        thinning->group_open[column->group]++;
        thinning->column[thinning->count++] = i;
    }
    thinning->open = thinning->count;
    return status;
}

static void column_shut(struct thinning *thinning, uint32_t column, bool shut)
{
    uint32_t group = thinning->work->columns[thinning->column[column]].group;
    thinning->shut[column] = shut;
    thinning->open += shut ? UINT32_MAX : 1;
    thinning->group_open[group] += shut ? UINT32_MAX : 1;
    lp_column_shut(thinning->lp, column, shut);
}

static void shares_copy(struct thinning *thinning)
{
    for (uint32_t i = 0; i < thinning->count; i++)
        thinning->work->columns[thinning->column[i]].share =
            thinning->shut[i] ? 0 : lp_share(thinning->lp, i);
}

/* Find the column to shut next: the open one with the least share, the deeper of equals,
 * but never the last one of its group. Columns that are `kept` count only with `any`. */
static uint32_t least_find(const struct thinning *thinning, bool any)
{
    const struct plan_column *columns = thinning->work->columns, *best = NULL;
    uint32_t least = GRAPH_NONE;
    for (uint32_t i = 0; i < thinning->count; i++) {
        const struct plan_column *column = &columns[thinning->column[i]];
        if (thinning->shut[i] || (thinning->kept[i] && !any) ||
            thinning->group_open[column->group] < 2)
            continue;
        if (!best || column->share < best->share ||
            (column->share == best->share && column->depth > best->depth)) {
            best = column;
            least = i;
        }
    }
    return least;
}

static void unused_shut(struct thinning *thinning)
{
    for (uint32_t i = 0; i < thinning->count; i++)
        if (!thinning->shut[i] &&
            !(thinning->work->columns[thinning->column[i]].share > 0))
            column_shut(thinning, i, true);
}

/* Shut each column if the time does not rise without it; then, while more than `most` are
 * open, others too. */
static void thin(struct thinning *thinning, double limit, uint32_t most)
{
    for (;;) {
        bool forced = false;
        uint32_t column = least_find(thinning, false);
        if (column == GRAPH_NONE && thinning->open > most) {
            column = least_find(thinning, true);
            forced = true;
        }
        if (column == GRAPH_NONE)
            return;
        column_shut(thinning, column, true);
        if (!lp_solve(thinning->lp))
            return;
        double time = lp_time(thinning->lp);
        if (time <= limit || forced) {
            limit = fmax(limit, time * (1 + GRAIN));
            shares_copy(thinning);
            unused_shut(thinning);
        } else {
            column_shut(thinning, column, false);
            thinning->kept[column] = true;
        }
    }
}

static tryst_status thin_all(struct plan_work *work, double limit, uint32_t most)
{
    struct thinning thinning;
    tryst_status status = thinning_init(&thinning, work);
    if (!status && lp_solve(thinning.lp) && lp_time(thinning.lp) <= limit) {
        shares_copy(&thinning);
        unused_shut(&thinning);
        thin(&thinning, limit, most);
    }
    thinning_wipe(&thinning);
    return status;
}

/* Build at most `trees_max` trees for each group, with the least slowdown of `time` that
 * is found. */
static tryst_status build_few(struct plan_work *work, double time, uint32_t trees_max)
{
    static const double slower[] = {1, 1.03, 1.08, 1.15, 1.25, 1.4, 1.7, 2.2, 3, 5};
    double best = INFINITY;
    for (size_t i = 0; i < sizeof slower / sizeof *slower; i++) {
        bool found;
        tryst_status status = plan_seed(work, best, time * slower[i], trees_max, &found);
        if (status)
            return status;
        if (found)
            best = plan_work_time(work, NULL);
        if (best <= time * slower[i])
            break;
    }
    return TRYST_OK;
}

/* ---- the steps --------------------------------------------------------------------- */

/* Record the present trees and time for this step and those after it, so that a step that
 * does not run shows no change. */
static void step_note(struct plan_work *work, enum plan_step_kind kind)
{
    struct plan_step step = {.s_per_byte = plan_work_time(work, NULL) / work->scale};
    for (uint32_t i = 0; i < work->columns_count; i++) {
        const struct plan_column *column = &work->columns[i];
        if (column->share > 0)
            plan_step_add(&step, work->op, work->ranks, column->depth, column->share);
    }
    for (int k = kind; k < PLAN_STEPS; k++)
        work->steps[k] = step;
}

static tryst_status fewer(struct plan_work *work, const struct plan_params *params,
                          double limit)
{
    uint64_t most =
        params->trees_max ? (uint64_t)params->trees_max * work->groups : UINT32_MAX;
    bool found;
    tryst_status status = thin_all(work, limit, UINT32_MAX);
    uint32_t used = plan_work_used(work);
    if (!status && used > most)
        status = build_few(work, limit, params->trees_max);
    else if (!status && used > work->groups)
        status = plan_seed(work, limit, limit, used - 1, &found);
    if (!status && plan_work_used(work) > most)
        status = thin_all(work, plan_work_time(work, NULL) * (1 + GRAIN), (uint32_t)most);
    return status;
}

/* Return the longest time that the steps without a solver may lead to: the present one,
 * or `time_enough` if the caller allows a gap. */
static double limit_of(struct plan_work *work, const struct plan_params *params,
                       double time_enough)
{
    double time = plan_work_time(work, NULL) * (1 + ROUNDING);
    return params->gap_max > 0 ? fmax(time, time_enough) : time;
}

tryst_status plan_simplify(struct plan_work *work, const struct plan_params *params,
                           double time_enough, bool few)
{
    tryst_status status = TRYST_OK;
    step_note(work, PLAN_SOLVED);
    if (!work->rows)
        return plan_shares_round(work, time_enough);
    if (!few && plan_work_used(work) > work->groups)
        status = fewer(work, params,
                       fmax(plan_work_time(work, NULL) * (1 + GRAIN), time_enough));
    if (status)
        return status;
    step_note(work, PLAN_FEWER);
    status = plan_shallow(work, limit_of(work, params, time_enough));
    if (status)
        return status;
    step_note(work, PLAN_SHALLOWER);
    status = plan_shares_round(work, limit_of(work, params, time_enough));
    step_note(work, PLAN_ROUNDED);
    return status;
}
