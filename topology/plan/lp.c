/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The restricted master by the primal simplex method (see lp.h).
 *
 * One idea: a basis has a position for each row and group. Column j of its inverse is the
 * unit vector e_j while the slack of row j is basic, and then it is not stored. A pivot
 * subtracts multiples of one vector from the stored columns, from the values of the basic
 * variables, and from their last items, which are the reduced costs.
 * Invariants: a basic slack is at its row's position. Right sides of rows are raised by
 * different amounts of about 1e-10, so that few pivots stand still (A. Charnes 1952);
 * shares and T are read without these amounts.
 */
#include "lp.h"

#include <math.h>
#include <string.h>

#include "core/memory/alloc.h"

#define NONE UINT32_MAX
/* Least amount by which a reduced cost is worth a pivot. */
#define COST_NEAR 1e-10
/* Least pivot element. */
#define PIVOT_LEAST 1e-8
/* What a basic variable may fall below 0 for a larger pivot element (Harris 1973). */
#define VALUE_NEAR 1e-12
/* Least right side of a row; the largest is twice this. */
#define RAISED 1e-10
/* Pivots after which the inverse is computed anew, against rounding errors. */
#define FACTOR_PIVOTS 500

struct column {
    uint32_t first, count; /* its entries; the last one is its group's */
    uint32_t position;     /* in the basis; NONE: not basic */
    double cost;           /* 0; 1 for T; dearer than any gain where it is shut */
};

/* Variables number slacks first, by row, then columns; column 0 is T. */
struct lp {
    uint32_t rows, size; /* size: rows + groups */
    uint32_t *entry_row; /* by entry */
    double *entry;       /* by entry */
    uint32_t entries_count;
    size_t entry_rows_room, entries_room;
    struct column *columns;
    uint32_t columns_count;
    size_t columns_room;
    double most;      /* the largest entry so far */
    uint32_t *basis;  /* by position: variable; NONE before the first solve */
    double **inverse; /* by row and group: the stored column; NULL: e_j */
    double **spare;   /* unused memory of stored columns */
    uint32_t spare_count, stored_count;
    double *value;     /* by position: value of the basic variable */
    double *direction; /* by position: fall of the value per unit that enters */
    uint32_t pivots;   /* of the last solve */
    uint32_t pivots_since_factor;
};

void lp_close(struct lp *lp)
{
    if (!lp)
        return;
    for (uint32_t i = 0; lp->inverse && i < lp->size; i++)
        mem_free(lp->inverse[i]);
    while (lp->spare_count > 0)
        mem_free(lp->spare[--lp->spare_count]);
    mem_free(lp->entry_row);
    mem_free(lp->entry);
    mem_free(lp->columns);
    mem_free(lp->basis);
    mem_free(lp->inverse);
    mem_free(lp->spare);
    mem_free(lp->value);
    mem_free(lp->direction);
    mem_free(lp);
}

/* Make room for one more column and its entries, and for one more stored column of the
 * inverse: as many are stored as columns are basic, and one more within a pivot. */
static bool column_reserve(struct lp *lp, uint32_t entries)
{
    size_t need = (size_t)lp->entries_count + entries;
    if (!mem_reserve(&lp->columns, &lp->columns_room, (size_t)lp->columns_count + 1,
                     sizeof *lp->columns) ||
        !mem_reserve(&lp->entry_row, &lp->entry_rows_room, need, sizeof *lp->entry_row) ||
        !mem_reserve(&lp->entry, &lp->entries_room, need, sizeof *lp->entry))
        return false;
    if (lp->stored_count > lp->size)
        return true;
    double *stored = mem_zalloc_array((size_t)lp->size + 1, sizeof *stored);
    if (!stored)
        return false;
    lp->spare[lp->spare_count++] = stored;
    lp->stored_count++;
    return true;
}

static void entry_add(struct lp *lp, uint32_t row, double value)
{
    lp->entry_row[lp->entries_count] = row;
    lp->entry[lp->entries_count++] = value;
    lp->columns[lp->columns_count].count++;
    lp->most = fmax(lp->most, value);
}

static void column_begin(struct lp *lp, double cost)
{
    lp->columns[lp->columns_count] =
        (struct column){.first = lp->entries_count, .position = NONE, .cost = cost};
}

tryst_status lp_column_add(struct lp *lp, uint32_t group, uint32_t values_count,
                           const uint32_t *rows, const double *values)
{
    if (!column_reserve(lp, values_count + 1))
        return TRYST_E_NOMEM;
    column_begin(lp, 0);
    for (uint32_t i = 0; i < values_count; i++)
        entry_add(lp, rows[i], values[i]);
    entry_add(lp, lp->rows + group, 1);
    lp->columns_count++;
    return TRYST_OK;
}

tryst_status lp_open(uint32_t rows_count, uint32_t groups_count, struct lp **lp_p)
{
    struct lp *lp = mem_zalloc(sizeof *lp);
    if (!lp)
        return TRYST_E_NOMEM;
    lp->rows = rows_count;
    lp->size = rows_count + groups_count;
    lp->basis = mem_zalloc_array(lp->size, sizeof *lp->basis);
    lp->inverse = mem_zalloc_array(lp->size, sizeof *lp->inverse);
    lp->spare = mem_zalloc_array((size_t)lp->size + 1, sizeof *lp->spare);
    lp->value = mem_zalloc_array((size_t)lp->size + 1, sizeof *lp->value);
    lp->direction = mem_zalloc_array((size_t)lp->size + 1, sizeof *lp->direction);
    if (!lp->basis || !lp->inverse || !lp->spare || !lp->value || !lp->direction ||
        !column_reserve(lp, rows_count) || !column_reserve(lp, rows_count)) {
        lp_close(lp);
        return TRYST_E_NOMEM;
    }
    memset(lp->basis, 0xff, lp->size * sizeof *lp->basis);
    column_begin(lp, 1);
    for (uint32_t i = 0; i < rows_count; i++)
        entry_add(lp, i, -1);
    lp->columns_count++;
    *lp_p = lp;
    return TRYST_OK;
}

/* ---- pivots ------------------------------------------------------------------------ */

/* Write how the basic variables fall per unit of the column; last the reduced cost. */
static void direction_set(struct lp *lp, const struct column *column)
{
    double *direction = lp->direction;
    memset(direction, 0, ((size_t)lp->size + 1) * sizeof *direction);
    direction[lp->size] = column->cost;
    for (uint32_t k = column->first; k < column->first + column->count; k++) {
        const double *inverse = lp->inverse[lp->entry_row[k]];
        double value = lp->entry[k];
        if (!inverse)
            direction[lp->entry_row[k]] += value;
        for (uint32_t i = 0; inverse && i <= lp->size; i++)
            direction[i] += value * inverse[i];
    }
}

/* Eliminate the direction from a vector by position. */
static void eliminate(const struct lp *lp, uint32_t position, double *vector)
{
    double part = vector[position] / lp->direction[position];
    if (part == 0)
        return;
    for (uint32_t i = 0; i <= lp->size; i++)
        vector[i] -= part * lp->direction[i];
    vector[position] = part;
}

static void basis_put(struct lp *lp, uint32_t position, uint32_t variable)
{
    lp->basis[position] = variable;
    if (variable != NONE && variable >= lp->rows)
        lp->columns[variable - lp->rows].position = position;
}

static void swap(double *vector, uint32_t a, uint32_t b)
{
    double kept = vector[a];
    vector[a] = vector[b];
    vector[b] = kept;
}

/* Move a slack that has entered to its own position; its column need not be stored. */
static void slack_settle(struct lp *lp, uint32_t position, uint32_t slack)
{
    lp->spare[lp->spare_count++] = lp->inverse[slack];
    lp->inverse[slack] = NULL;
    for (uint32_t j = 0; j < lp->size; j++)
        if (lp->inverse[j])
            swap(lp->inverse[j], position, slack);
    swap(lp->value, position, slack);
    basis_put(lp, position, lp->basis[slack]);
    basis_put(lp, slack, slack);
}

/* Let a variable enter the basis at a position, along lp->direction. */
static void pivot(struct lp *lp, uint32_t position, uint32_t entering)
{
    uint32_t leaving = lp->basis[position];
    if (!lp->inverse[position]) {
        double *unit = lp->spare[--lp->spare_count];
        memset(unit, 0, ((size_t)lp->size + 1) * sizeof *unit);
        unit[position] = 1;
        lp->inverse[position] = unit;
    }
    for (uint32_t j = 0; j < lp->size; j++)
        if (lp->inverse[j])
            eliminate(lp, position, lp->inverse[j]);
    eliminate(lp, position, lp->value);
    if (leaving != NONE && leaving >= lp->rows)
        lp->columns[leaving - lp->rows].position = NONE;
    basis_put(lp, position, entering);
    if (entering < lp->rows)
        slack_settle(lp, position, entering);
}

/* ---- the basis --------------------------------------------------------------------- */

/* Return the right side of a row, which differs from other rows'. */
static double raised(uint32_t row)
{
    double part = row * 0.6180339887498949;
    return RAISED * (1 + part - floor(part));
}

/* Return the free position with the largest item of the direction; NONE: all are 0. */
static uint32_t free_find(const struct lp *lp)
{
    uint32_t best = NONE;
    double most = PIVOT_LEAST;
    for (uint32_t i = 0; i < lp->size; i++)
        if (lp->basis[i] == NONE && fabs(lp->direction[i]) > most) {
            most = fabs(lp->direction[i]);
            best = i;
        }
    return best;
}

/* Compute the inverse for the slacks at their positions and the columns that have one.
 * Returns false if the basis is singular. */
static bool factor(struct lp *lp)
{
    lp->pivots_since_factor = 0;
    for (uint32_t i = 0; i < lp->size; i++) {
        if (lp->inverse[i])
            lp->spare[lp->spare_count++] = lp->inverse[i];
        lp->inverse[i] = NULL;
        lp->basis[i] = i < lp->rows && lp->basis[i] == i ? i : NONE;
        lp->value[i] = i < lp->rows ? raised(i) : 1;
    }
    lp->value[lp->size] = 0;
    for (uint32_t c = 0; c < lp->columns_count; c++) {
        if (lp->columns[c].position == NONE)
            continue;
        direction_set(lp, &lp->columns[c]);
        uint32_t position = free_find(lp);
        if (position == NONE)
            return false;
        pivot(lp, position, lp->rows + c);
    }
    return true;
}

/* Start with T, the first open column of each group and the slacks of all rows but the
 * busiest. Returns false if a group has no open column. */
static bool start(struct lp *lp)
{
    double *load = lp->direction;
    uint32_t busiest = 0;
    memset(load, 0, lp->size * sizeof *load);
    for (uint32_t c = 1; c < lp->columns_count; c++) {
        struct column *column = &lp->columns[c];
        uint32_t last = column->first + column->count - 1;
        column->position = NONE;
        if (column->cost > 0 || load[lp->entry_row[last]] > 0)
            continue;
        for (uint32_t k = column->first; k <= last; k++)
            load[lp->entry_row[k]] += lp->entry[k];
        column->position = 0;
    }
    for (uint32_t i = lp->rows; i < lp->size; i++)
        if (!(load[i] > 0))
            return false;
    for (uint32_t i = 0; i < lp->rows; i++) {
        lp->basis[i] = i;
        if (load[i] - raised(i) > load[busiest] - raised(busiest))
            busiest = i;
    }
    lp->basis[busiest] = NONE;
    lp->columns[0].position = 0;
    return factor(lp);
}

/* ---- the method -------------------------------------------------------------------- */

static double reduced_cost(const struct lp *lp, const struct column *column)
{
    double cost = column->cost;
    for (uint32_t k = column->first; k < column->first + column->count; k++) {
        const double *inverse = lp->inverse[lp->entry_row[k]];
        cost += inverse ? lp->entry[k] * inverse[lp->size] : 0;
    }
    return cost;
}

/* Return the variable with the least reduced cost; NONE: the basis is optimal. */
static uint32_t entering_find(const struct lp *lp)
{
    uint32_t best = NONE;
    double least = -COST_NEAR;
    for (uint32_t i = 0; i < lp->rows; i++)
        if (lp->inverse[i] && lp->inverse[i][lp->size] < least) {
            least = lp->inverse[i][lp->size];
            best = i;
        }
    for (uint32_t c = 1; c < lp->columns_count; c++) {
        const struct column *column = &lp->columns[c];
        if (column->position != NONE || column->cost > 0)
            continue;
        double cost = reduced_cost(lp, column);
        if (cost < least) {
            least = cost;
            best = lp->rows + c;
        }
    }
    return best;
}

/* Return the position whose variable falls to 0 first, of nearly equal ones that with the
 * largest pivot element; NONE if none falls. */
static uint32_t leaving_find(const struct lp *lp)
{
    double step = INFINITY, most = PIVOT_LEAST;
    uint32_t best = NONE;
    for (uint32_t i = 0; i < lp->size; i++)
        if (lp->direction[i] > PIVOT_LEAST)
            step = fmin(step, (lp->value[i] + VALUE_NEAR) / lp->direction[i]);
    for (uint32_t i = 0; i < lp->size; i++)
        if (lp->direction[i] > most && lp->value[i] <= step * lp->direction[i]) {
            most = lp->direction[i];
            best = i;
        }
    return best;
}

static bool shut_in_use(const struct lp *lp)
{
    bool used = false;
    for (uint32_t c = 1; c < lp->columns_count; c++)
        used |= lp->columns[c].cost > 0 && lp_share(lp, c - 1) > 1e-9;
    return used;
}

bool lp_solve(struct lp *lp, uint32_t pivots_max)
{
    lp->pivots = 0;
    if (lp->columns[0].position == NONE && !start(lp))
        return false;
    for (; lp->pivots < pivots_max; lp->pivots++) {
        if (lp->pivots_since_factor++ >= FACTOR_PIVOTS && !factor(lp))
            return false;
        uint32_t entering = entering_find(lp);
        if (entering == NONE)
            return !shut_in_use(lp);
        if (entering < lp->rows)
            memcpy(lp->direction, lp->inverse[entering],
                   ((size_t)lp->size + 1) * sizeof *lp->direction);
        else
            direction_set(lp, &lp->columns[entering - lp->rows]);
        uint32_t position = leaving_find(lp);
        if (position == NONE)
            return false;
        lp->value[position] = fmax(lp->value[position], 0);
        pivot(lp, position, entering);
    }
    return false;
}

void lp_column_shut(struct lp *lp, uint32_t column, bool shut)
{
    struct column *changed = &lp->columns[column + 1];
    double cost = shut ? 2 * (1 + lp->most) : 0, more = cost - changed->cost;
    changed->cost = cost;
    if (changed->position == NONE)
        return;
    for (uint32_t j = 0; j < lp->size; j++)
        if (lp->inverse[j])
            lp->inverse[j][lp->size] -= more * lp->inverse[j][changed->position];
    lp->value[lp->size] -= more * lp->value[changed->position];
}

/* ---- results ----------------------------------------------------------------------- */

/* Return a column's value, without what the rows' right sides are raised by. */
static double value_of(const struct lp *lp, uint32_t column)
{
    uint32_t position = lp->columns[column].position;
    double value = 0;
    for (uint32_t j = lp->rows; position != NONE && j < lp->size; j++)
        value += lp->inverse[j][position];
    return value;
}

double lp_time(const struct lp *lp)
{
    return value_of(lp, 0);
}

double lp_share(const struct lp *lp, uint32_t column)
{
    return fmax(value_of(lp, column + 1), 0);
}

void lp_prices(const struct lp *lp, double *price_p)
{
    double sum = 0;
    for (uint32_t i = 0; i < lp->rows; i++) {
        price_p[i] = lp->inverse[i] ? fmax(lp->inverse[i][lp->size], 0) : 0;
        sum += price_p[i];
    }
    for (uint32_t i = 0; i < lp->rows; i++)
        price_p[i] = sum > 0 ? price_p[i] / sum : 1.0 / lp->rows;
}

uint32_t lp_pivots(const struct lp *lp)
{
    return lp->pivots;
}
