/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shares by multiplicative weights: no LP needed, and no size too large.
 *
 * One idea: each row has the weight exp(its time ÷ mu). mu × log(sum of the weights) is a
 * smooth stand-in for the longest time and can be minimized: share moves from the most
 * expensive tree in use to the cheapest tree that the oracle finds, with a step from a
 * line search. The weights, scaled to sum 1, are the prices of the bound. mu shrinks when
 * little is left to gain at this mu; while these prices do not raise the bound, mu also
 * follows the gap.
 * (The weights: Garg and Koenemann 1998. The steps: blended pairwise conditional
 * gradients, Tsuji, Tanaka and Pokutta 2022, which remove trees again and so keep few.)
 * Invariants: the shares of a group sum to 1; afterwards the shares are the best that
 * were found.
 */
#include "plan_mwu.h"

#include <math.h>
#include <string.h>

#include "core/memory/alloc.h"

/* Rankings of the trees in use between two calls of the oracle: RANK_WORK × ranks² ÷
 * values of the trees in use, within these limits. */
#define RANKS_MAX 64
#define RANKS_MIN 3
#define RANK_WORK 64.0
/* Moves after each ranking, for each group: with 16 a mesh of 64 took half as long
 * again. */
#define MOVES_MAX 4

/* Limits of the line search: an approximate step is enough, the next ranking corrects
 * it. */
#define SEARCH_STEPS 4
#define SEARCH_NEAR  0.1

/* mu × log(rows) ÷ gap, where mu follows the gap; 0.25 … 1 differ little. */
#define MU_OF_GAP 0.5

/* power_e clamps its argument to these: the results stay well within a double's range,
 * and weights beyond them make no difference. */
#define POWER_LEAST (-300.0)
#define POWER_MOST  500.0

struct in_use {
    uint32_t column;
    double cost; /* at the last ranking */
};

struct mwu {
    struct arrays arrays;
    struct plan_work *work;
    double *time, *weight; /* by row; weight = exp((time - top) / mu) */
    double *price;         /* by row: weight ÷ sum */
    /* Sum of the weights; longest time; mu (see above); log(rows + 1). */
    double sum, top, mu, log_rows;
    double *change; /* by row: what the step being tried adds, per share */
    uint32_t *touched, touched_count; /* rows with a `change` other than 0 */
    struct in_use *active;            /* columns with a share */
    uint32_t active_count;
    size_t active_room;
    double values_count; /* sum of values_count over the columns in use */
    double best_time;    /* the shortest `top` so far */
    /* By group: cheapest and dearest column in use, or GRAPH_NONE. */
    uint32_t *cheap, *dear;
    double *cheap_cost, *dear_cost;
};

static void mwu_wipe(struct mwu *mwu)
{
    arrays_free(&mwu->arrays);
    mem_free(mwu->active);
}

static tryst_status mwu_init(struct mwu *mwu, struct plan_work *work)
{
    uint32_t rows = work->rows, groups = work->groups;
    *mwu = (struct mwu){.work = work, .log_rows = log(rows + 1.0), .best_time = INFINITY};
    mwu->time = arrays_alloc(&mwu->arrays, rows, sizeof *mwu->time);
    mwu->weight = arrays_alloc(&mwu->arrays, rows, sizeof *mwu->weight);
    mwu->price = arrays_alloc(&mwu->arrays, rows, sizeof *mwu->price);
    mwu->change = arrays_alloc(&mwu->arrays, rows, sizeof *mwu->change);
    mwu->touched = arrays_alloc(&mwu->arrays, rows, sizeof *mwu->touched);
    mwu->cheap = arrays_alloc(&mwu->arrays, groups, sizeof *mwu->cheap);
    mwu->dear = arrays_alloc(&mwu->arrays, groups, sizeof *mwu->dear);
    mwu->cheap_cost = arrays_alloc(&mwu->arrays, groups, sizeof *mwu->cheap_cost);
    mwu->dear_cost = arrays_alloc(&mwu->arrays, groups, sizeof *mwu->dear_cost);
    return mwu->arrays.status;
}

/* Make room in `active` for all columns of the pool. */
static tryst_status active_reserve(struct mwu *mwu)
{
    return mem_reserve(&mwu->active, &mwu->active_room, mwu->work->columns_count,
                       sizeof *mwu->active)
               ? TRYST_OK
               : TRYST_E_NOMEM;
}

/* Return e to the x, to nine digits, in plain arithmetic: libm's result differs between
 * processors, and takes longer. */
static double power_e(double x)
{
    static const double magic = 0x1.8p52; /* adding x to it rounds x to an integer */
    static const double log2_e = 0x1.71547652b82fep0;
    static const double ln2_high = 0x1.62e42feep-1, ln2_low = 0x1.a39ef35793c76p-33;
    x = x > POWER_LEAST ? x : POWER_LEAST;
    x = x < POWER_MOST ? x : POWER_MOST;
    double power = x * log2_e + magic - magic, scale;
    double rest = x - power * ln2_high - power * ln2_low;
    uint64_t bits = (uint64_t)((int64_t)power + 1023) << 52;
    double sum = 1.0 / 5040;
    sum = sum * rest + 1.0 / 720;
    sum = sum * rest + 1.0 / 120;
    sum = sum * rest + 1.0 / 24;
    sum = sum * rest + 1.0 / 6;
    sum = sum * rest + 1.0 / 2;
    sum = sum * rest + 1;
    sum = sum * rest + 1;
    memcpy(&scale, &bits, sizeof scale);
    return sum * scale;
}

/* Recompute the weights from the times. */
static void weights_set(struct mwu *mwu)
{
    uint32_t rows = mwu->work->rows;
    mwu->top = 0;
    for (uint32_t i = 0; i < rows; i++)
        mwu->top = fmax(mwu->top, mwu->time[i]);
    mwu->sum = 0;
    for (uint32_t i = 0; i < rows; i++) {
        mwu->weight[i] = power_e((mwu->time[i] - mwu->top) / mwu->mu);
        mwu->sum += mwu->weight[i];
    }
}

/* Recompute the times from the shares, so that rounding errors do not accumulate. */
static void times_set(struct mwu *mwu)
{
    memset(mwu->time, 0, mwu->work->rows * sizeof *mwu->time);
    for (uint32_t i = 0; i < mwu->active_count; i++) {
        const struct plan_column *column = &mwu->work->columns[mwu->active[i].column];
        double share = column->share;
        for (uint32_t k = 0; k < column->values_count; k++)
            mwu->time[column->rows[k]] += share * column->values[k];
    }
}

/* Save the shares if their time is the best so far. */
static void best_keep(struct mwu *mwu)
{
    if (mwu->top >= mwu->best_time)
        return;
    mwu->best_time = mwu->top;
    for (uint32_t i = 0; i < mwu->work->columns_count; i++)
        mwu->work->columns[i].share_kept = mwu->work->columns[i].share;
}

/* --- one step ----------------------------------------------------------------------- */

static void change_add(struct mwu *mwu, const struct plan_column *column, double sign)
{
    for (uint32_t k = 0; k < column->values_count; k++) {
        uint32_t row = column->rows[k];
        if (mwu->change[row] == 0)
            mwu->touched[mwu->touched_count++] = row;
        mwu->change[row] += sign * column->values[k];
        if (mwu->change[row] == 0)
            mwu->change[row] = 1e-300; /* nonzero, so the row is not listed twice */
    }
}

/* Return the slope at `step` of mu × the sum of the weights, which is least where the
 * smooth time is least. `*curve_p` is the second derivative. */
static double slope_at(const struct mwu *mwu, double step, double *curve_p)
{
    double slope = 0, curve = 0;
    for (uint32_t i = 0; i < mwu->touched_count; i++) {
        uint32_t row = mwu->touched[i];
        double change = mwu->change[row];
        double power = (mwu->time[row] - mwu->top + step * change) / mwu->mu;
        double term = change * power_e(power);
        slope += term;
        curve += term * change / mwu->mu;
    }
    *curve_p = curve;
    return slope;
}

/* Return the step in 0 … most at which the smooth time is least, by Newton's method
 * within a bracket. */
static double step_search(const struct mwu *mwu, double most)
{
    double curve, low = 0, high = most, step;
    double slope = slope_at(mwu, 0, &curve);
    if (slope >= 0)
        return 0;
    step = curve > 0 ? -slope / curve : most;
    if (step >= most && slope_at(mwu, most, &curve) <= 0)
        return most;
    for (int i = 0; i < SEARCH_STEPS; i++) {
        if (!(step > low && step < high))
            step = (low + high) / 2;
        slope = slope_at(mwu, step, &curve);
        if (slope > 0)
            high = step;
        else
            low = step;
        double next = curve > 0 ? step - slope / curve : low;
        if (fabs(next - step) <= SEARCH_NEAR * step)
            return fmin(fmax(next, low), high);
        step = next;
    }
    return low > 0 ? low : step;
}

static void step_apply(struct mwu *mwu, double step)
{
    for (uint32_t i = 0; i < mwu->touched_count; i++) {
        uint32_t row = mwu->touched[i];
        double was = mwu->weight[row];
        mwu->time[row] += step * mwu->change[row];
        mwu->weight[row] = power_e((mwu->time[row] - mwu->top) / mwu->mu);
        mwu->sum += mwu->weight[row] - was;
    }
}

/* Move share from one column to another of its group. */
static void share_move(struct mwu *mwu, uint32_t from, uint32_t to)
{
    struct plan_column *columns = mwu->work->columns;
    change_add(mwu, &columns[to], 1);
    change_add(mwu, &columns[from], -1);
    double most = columns[from].share, step = step_search(mwu, most);
    if (step > 0) {
        step_apply(mwu, step);
        if (columns[to].share == 0)
            mwu->active[mwu->active_count++].column = to;
        columns[to].share += step;
        columns[from].share = step < most ? most - step : 0;
    }
    for (uint32_t i = 0; i < mwu->touched_count; i++)
        mwu->change[mwu->touched[i]] = 0;
    mwu->touched_count = 0;
}

static void active_sweep(struct mwu *mwu)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < mwu->active_count; i++)
        if (mwu->work->columns[mwu->active[i].column].share > 0)
            mwu->active[left++] = mwu->active[i];
    mwu->active_count = left;
}

/* Find the cheapest and the dearest column in use of each group. Returns the sum of the
 * differences of their costs. */
static double active_rank(struct mwu *mwu)
{
    struct plan_work *work = mwu->work;
    double gain = 0;
    for (uint32_t i = 0; i < work->rows; i++)
        mwu->price[i] = mwu->weight[i] / mwu->sum;
    for (uint32_t g = 0; g < work->groups; g++)
        mwu->cheap[g] = mwu->dear[g] = GRAPH_NONE;
    mwu->values_count = 0;
    for (uint32_t i = 0; i < mwu->active_count; i++) {
        const struct plan_column *column = &work->columns[mwu->active[i].column];
        double cost = plan_column_cost(column, mwu->price);
        mwu->active[i].cost = cost;
        mwu->values_count += column->values_count;
        uint32_t g = column->group;
        if (mwu->cheap[g] == GRAPH_NONE || cost < mwu->cheap_cost[g]) {
            mwu->cheap[g] = mwu->active[i].column;
            mwu->cheap_cost[g] = cost;
        }
        if (mwu->dear[g] == GRAPH_NONE || cost > mwu->dear_cost[g]) {
            mwu->dear[g] = mwu->active[i].column;
            mwu->dear_cost[g] = cost;
        }
    }
    for (uint32_t g = 0; g < work->groups; g++)
        gain += mwu->dear_cost[g] - mwu->cheap_cost[g];
    return gain;
}

/* Move share to each group's cheapest column from those in the upper half of the group's
 * cost range. */
static void active_move(struct mwu *mwu)
{
    uint32_t ranked = mwu->active_count, moves = MOVES_MAX * mwu->work->groups;
    for (uint32_t i = 0; i < ranked && moves > 0; i++) {
        uint32_t g = mwu->work->columns[mwu->active[i].column].group;
        double middle = (mwu->cheap_cost[g] + mwu->dear_cost[g]) / 2;
        if (mwu->cheap[g] == mwu->dear[g] || !(mwu->active[i].cost > middle))
            continue;
        share_move(mwu, mwu->active[i].column, mwu->cheap[g]);
        moves--;
    }
    active_sweep(mwu);
}

/* Move share among the columns in use until the gain left there is at most `enough`. */
static void active_settle(struct mwu *mwu, double enough)
{
    double n = mwu->work->ranks, most = RANK_WORK * n * n / fmax(mwu->values_count, 1);
    most = fmin(fmax(most, RANKS_MIN), RANKS_MAX);
    for (int i = 0; i < most; i++) {
        if (active_rank(mwu) <= enough)
            return;
        active_move(mwu);
    }
}

/* --- the loop ----------------------------------------------------------------------- */

/* Start from the columns' shares; a group without shares gets its cheapest tree at the
 * last prices. */
static tryst_status start_set(struct mwu *mwu)
{
    struct plan_work *work = mwu->work;
    for (uint32_t i = 0; i < work->columns_count; i++)
        if (work->columns[i].share > 0)
            mwu->cheap_cost[work->columns[i].group] = 1;
    for (uint32_t g = 0; g < work->groups; g++) {
        uint32_t column;
        if (mwu->cheap_cost[g] > 0)
            continue;
        tryst_status status =
            plan_work_add_cheapest(work, plan_work_best_root(work, g), &column);
        if (status)
            return status;
        work->columns[column].share = 1;
    }
    tryst_status status = active_reserve(mwu);
    if (status)
        return status;
    for (uint32_t i = 0; i < work->columns_count; i++)
        if (work->columns[i].share > 0)
            mwu->active[mwu->active_count++].column = i;
    return TRYST_OK;
}

/* Call the oracle and move share to its trees. `*gain_p`: the gain left at this mu. */
static tryst_status oracle_step(struct mwu *mwu, double *gain_p)
{
    struct plan_work *work = mwu->work;
    double average = 0;
    active_rank(mwu);
    for (uint32_t i = 0; i < work->rows; i++)
        average += mwu->price[i] * mwu->time[i];
    *gain_p = average - plan_work_price(work, mwu->price);
    for (uint32_t g = 0; g < work->groups; g++) {
        uint32_t column;
        tryst_status status =
            plan_work_add_cheapest(work, plan_work_best_root(work, g), &column);
        if (!status)
            status = active_reserve(mwu);
        if (status)
            return status;
        if (column != mwu->dear[g])
            share_move(mwu, mwu->dear[g], column);
    }
    active_sweep(mwu);
    return TRYST_OK;
}

/* Halve mu if little gain is left at this mu; let mu follow the gap, too, unless the
 * bound has risen above its first value, `bound`. */
static void mu_shrink(struct mwu *mwu, double gap, double gain, double bound)
{
    double now = mwu->work->bound, least = gap * mwu->top / (4 * mwu->log_rows);
    if (gain <= 0.5 * mwu->mu * mwu->log_rows)
        mwu->mu = fmax(mwu->mu / 2, least);
    if (now > bound * (1 + gap))
        return;
    double mu = fmax(MU_OF_GAP * (mwu->top - now) / mwu->log_rows, least);
    mwu->mu = fmin(mwu->mu, mu);
}

static tryst_status walk_down(struct mwu *mwu, double gap, uint32_t calls_max)
{
    struct plan_work *work = mwu->work;
    double gain = INFINITY, bound = work->bound;
    times_set(mwu);
    mwu->mu = 1;
    weights_set(mwu);
    mwu->mu = fmax(mwu->top - work->bound, 1e-3 * mwu->top) / mwu->log_rows;
    for (uint32_t calls = 0; calls < calls_max && !plan_work_late(work); calls++) {
        times_set(mwu);
        weights_set(mwu);
        best_keep(mwu);
        if (mwu->best_time - work->bound <= gap * mwu->best_time)
            break;
        tryst_status status = oracle_step(mwu, &gain);
        if (status)
            return status;
        active_settle(mwu, gain / 2);
        mu_shrink(mwu, gap, gain, bound);
    }
    times_set(mwu);
    weights_set(mwu);
    best_keep(mwu);
    return TRYST_OK;
}

tryst_status plan_mwu(struct plan_work *work, double gap, uint32_t calls_max)
{
    struct mwu mwu;
    tryst_status status = mwu_init(&mwu, work);
    if (!status)
        status = start_set(&mwu);
    if (!status && work->rows > 0)
        status = walk_down(&mwu, gap, calls_max);
    for (uint32_t i = 0; !status && work->rows > 0 && i < work->columns_count; i++)
        work->columns[i].share = work->columns[i].share_kept;
    mwu_wipe(&mwu);
    return status;
}
