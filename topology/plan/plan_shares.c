/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readable shares: 1/2, not 0.5000000000009.
 *
 * One idea: a solver's share is a simple fraction plus rounding errors. Grids 1/q are
 * tried with q from 1 to SMALL_MAX; the first one on which no row takes longer than
 * `limit` is used, else the finest. (On a coarse grid a small share may round to 0: that
 * tree was not needed.)
 * Invariant: the shares of a group sum to exactly 1 in any order, since each is a
 * multiple of GRAIN.
 */
#include "plan_shares.h"

#include <math.h>
#include <string.h>

#define GRAIN     0x1p-52 /* sums of its multiples up to 1 are exact */
#define SMALL_MAX 64u

struct rounding {
    struct arrays arrays;
    struct plan_work *work;
    uint32_t *used; /* columns with a share, sorted by group */
    uint32_t count;
    double *share; /* the shares before rounding, by position in `used` */
    double *parts; /* scratch: shares in parts of the grid */
};

static uint32_t group_end(const struct rounding *rounding, uint32_t first)
{
    const struct plan_column *columns = rounding->work->columns;
    uint32_t end = first;
    while (end < rounding->count &&
           columns[rounding->used[end]].group == columns[rounding->used[first]].group)
        end++;
    return end;
}

/* Read the shares; scale those of each group to sum 1, which a solver meets only within
 * its tolerance. */
static void shares_read(struct rounding *rounding)
{
    const struct plan_column *columns = rounding->work->columns;
    for (uint32_t first = 0, end; first < rounding->count; first = end) {
        double sum = 0;
        end = group_end(rounding, first);
        for (uint32_t k = first; k < end; k++)
            sum += columns[rounding->used[k]].share;
        for (uint32_t k = first; k < end; k++)
            rounding->share[k] = columns[rounding->used[k]].share / sum;
    }
}

static bool rounding_init(struct rounding *rounding, struct plan_work *work)
{
    uint32_t count = plan_work_used(work);
    *rounding = (struct rounding){.work = work};
    rounding->used = arrays_alloc(&rounding->arrays, count, sizeof *rounding->used);
    rounding->share = arrays_alloc(&rounding->arrays, count, sizeof *rounding->share);
    rounding->parts = arrays_alloc(&rounding->arrays, count, sizeof *rounding->parts);
    if (rounding->arrays.status)
        return false;
    for (uint32_t i = 0; i < work->columns_count; i++) {
        uint32_t at = rounding->count;
        if (!(work->columns[i].share > 0))
            continue;
        for (; at > 0 &&
               work->columns[rounding->used[at - 1]].group > work->columns[i].group;
             at--)
            rounding->used[at] = rounding->used[at - 1];
        rounding->used[at] = i;
        rounding->count++;
    }
    shares_read(rounding);
    return true;
}

/* Find the share of the group that is most below its exact value (`more`), or most
 * above. */
static uint32_t furthest_find(const struct rounding *rounding, uint32_t first,
                              uint32_t end, double q, bool more)
{
    uint32_t best = first;
    double most = -INFINITY;
    for (uint32_t k = first; k < end; k++) {
        double off = rounding->share[k] * q - rounding->parts[k];
        if ((more || rounding->parts[k] > 0) && (more ? off : -off) > most) {
            most = more ? off : -off;
            best = k;
        }
    }
    return best;
}

/* Round a group's shares to whole parts of 1/q (largest remainders: Hamilton), then to
 * multiples of GRAIN. */
static void group_round(struct rounding *rounding, uint32_t first, uint32_t end, double q)
{
    double sum = 0, left = q;
    uint32_t largest = first;
    for (uint32_t k = first; k < end; k++) {
        rounding->parts[k] = floor(rounding->share[k] * q + 0.5);
        left -= rounding->parts[k];
    }
    for (; left != 0; left += left > 0 ? -1 : 1)
        rounding->parts[furthest_find(rounding, first, end, q, left > 0)] +=
            left > 0 ? 1 : -1;
    for (uint32_t k = first; k < end; k++) {
        double *share = &rounding->work->columns[rounding->used[k]].share;
        *share = floor(rounding->parts[k] / q / GRAIN + 0.5) * GRAIN;
        sum += *share;
        if (rounding->parts[k] > rounding->parts[largest])
            largest = k;
    }
    rounding->work->columns[rounding->used[largest]].share += 1 - sum;
}

static void grid_round(struct rounding *rounding, double q)
{
    for (uint32_t first = 0, end; first < rounding->count; first = end) {
        end = group_end(rounding, first);
        group_round(rounding, first, end, q);
    }
}

static bool grid_fits(struct rounding *rounding, double q, double limit)
{
    grid_round(rounding, q);
    return plan_work_time(rounding->work, NULL) <= limit;
}

static void grid_find(struct rounding *rounding, double limit)
{
    for (uint32_t q = 1; q <= SMALL_MAX; q++)
        if (grid_fits(rounding, q, limit))
            return;
    grid_round(rounding, 1 / GRAIN);
}

tryst_status plan_shares_round(struct plan_work *work, double limit)
{
    struct rounding rounding;
    bool room = rounding_init(&rounding, work);
    if (room)
        grid_find(&rounding, limit);
    arrays_free(&rounding.arrays);
    return room ? TRYST_OK : TRYST_E_NOMEM;
}
