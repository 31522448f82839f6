/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The restricted master by the primal simplex method (see lp.h).
 *
 * One idea: a basis has a position for each row and group. Column j of its inverse is the
 * unit vector e_j while the slack of row j is basic, and then it is not stored. A pivot
 * subtracts multiples of one vector from the stored columns and from the values of the
 * basic variables; the last items of these vectors are the reduced costs.
 * Invariants: a basic slack is at its row's position. Right sides of rows are raised by
 * different amounts of about 1e-12 against pivots of length 0 (A. Charnes 1952); shares
 * and T are read without these amounts.
 */
#include "lp.h"

#include <math.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/memory/arrays.h"

#define NONE UINT32_MAX
/* A reduced cost below -COST_NEAR is worth a pivot. */
#define COST_NEAR 1e-10
/* The least pivot element. */
#define PIVOT_LEAST 1e-7
/* How far a basic variable may fall below 0 for a larger pivot element (Harris 1973). */
#define VALUE_NEAR 1e-13
/* The least right side of a row; the largest is twice this. */
#define RAISED 1e-12
/* Columns that are priced for a pivot, by row of the LP: of thousands, few change from
 * one pivot to the next. */
#define SECTION_ROWS 4
/* Pivots after which the inverse is computed anew, against rounding errors. */
#define FACTOR_PIVOTS 500

struct column {
    uint32_t count;    /* of its entries; the last one is its group's */
    uint32_t *rows;    /* by entry */
    double *values;    /* by entry */
    uint32_t position; /* in the basis; NONE: not basic */
    double cost;       /* 0; 1 for T; dearer than any gain where the column is shut */
};

/* Variables number slacks first, by row, then columns; column 0 is T. */
struct lp {
    struct arrays arrays; /* memory of all arrays below, except `columns` */
    uint32_t rows, size;  /* size: rows + groups */
    struct column *columns;
    uint32_t columns_count;
    size_t columns_room;
    double most;       /* the largest value so far */
    uint32_t *basis;   /* by position: variable; NONE: none yet */
    double **inverse;  /* by row and group: the stored column; NULL: e_j */
    double **spare;    /* memory for more stored columns */
    double *value;     /* by position: value of the basic variable */
    double *direction; /* by position: fall of that value per unit that enters */
    uint32_t spare_count, stored_max;
    uint32_t priced; /* the column that is priced next */
    uint32_t pivots_left, pivots_to_factor;
};

void lp_close(struct lp *lp)
{
    if (!lp)
        return;
    arrays_free(&lp->arrays);
    mem_free(lp->columns);
    mem_free(lp);
}

static double *vector_new(struct lp *lp)
{
    return arrays_alloc(&lp->arrays, (size_t)lp->size + 1, sizeof(double));
}

/* Add memory for a stored column: as many are stored as columns are basic, and one more
 * within a pivot. */
static void spare_add(struct lp *lp)
{
    if (lp->stored_max > lp->size)
        return;
    lp->spare[lp->spare_count++] = vector_new(lp);
    lp->stored_max++;
}

/* Append a column with uninitialized entries. Returns NULL if out of memory. */
static struct column *column_new(struct lp *lp, uint32_t count, double cost)
{
    if (!mem_reserve(&lp->columns, &lp->columns_room, (size_t)lp->columns_count + 1,
                     sizeof *lp->columns))
        return NULL;
    struct column *column = &lp->columns[lp->columns_count++];
    *column = (struct column){.count = count, .position = NONE, .cost = cost};
    column->rows = arrays_alloc(&lp->arrays, count, sizeof *column->rows);
    column->values = arrays_alloc(&lp->arrays, count, sizeof *column->values);
    spare_add(lp);
    return lp->arrays.status ? NULL : column;
}

tryst_status lp_column_add(struct lp *lp, uint32_t group, uint32_t values_count,
                           const uint32_t *rows, const double *values)
{
    struct column *column = column_new(lp, values_count + 1, 0);
    if (!column)
        return TRYST_E_NOMEM;
    memcpy(column->rows, rows, values_count * sizeof *rows);
    memcpy(column->values, values, values_count * sizeof *values);
    column->rows[values_count] = lp->rows + group;
    column->values[values_count] = 1;
    for (uint32_t i = 0; i < values_count; i++)
        lp->most = fmax(lp->most, values[i]);
    return TRYST_OK;
}

static tryst_status lp_init(struct lp *lp)
{
    lp->basis = arrays_alloc(&lp->arrays, lp->size, sizeof *lp->basis);
    lp->inverse = arrays_alloc(&lp->arrays, lp->size, sizeof *lp->inverse);
    lp->spare = arrays_alloc(&lp->arrays, (size_t)lp->size + 1, sizeof *lp->spare);
    lp->value = vector_new(lp);
    lp->direction = vector_new(lp);
    if (lp->arrays.status)
        return TRYST_E_NOMEM;
    spare_add(lp);
    struct column *time = column_new(lp, lp->rows, 1);
    for (uint32_t i = 0; time && i < lp->rows; i++) {
        time->rows[i] = i;
        time->values[i] = -1;
    }
    return time ? TRYST_OK : TRYST_E_NOMEM;
}

tryst_status lp_open(uint32_t rows_count, uint32_t groups_count, uint32_t pivots_max,
                     struct lp **lp_p)
{
    struct lp *lp = mem_zalloc(sizeof *lp);
    if (!lp)
        return TRYST_E_NOMEM;
    lp->rows = rows_count;
    lp->size = rows_count + groups_count;
    lp->pivots_left = pivots_max;
    tryst_status status = lp_init(lp);
    if (status)
        lp_close(lp);
    else
        *lp_p = lp;
    return status;
}

/* ---- pivots ------------------------------------------------------------------------ */

/* Most of the time is spent here. */
static void add_times(double *restrict to, double times, const double *restrict from,
                      uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        to[i] += times * from[i];
}

/* Find how the basic variables fall per unit of a variable that enters, and last its
 * reduced cost. */
static void direction_set(struct lp *lp, uint32_t entering)
{
    double *direction = lp->direction;
    size_t bytes = ((size_t)lp->size + 1) * sizeof *direction;
    if (entering < lp->rows) {
        memcpy(direction, lp->inverse[entering], bytes);
        return;
    }
    const struct column *column = &lp->columns[entering - lp->rows];
    memset(direction, 0, bytes);
    direction[lp->size] = column->cost;
    for (uint32_t k = 0; k < column->count; k++) {
        const double *inverse = lp->inverse[column->rows[k]];
        if (!inverse)
            direction[column->rows[k]] += column->values[k];
        else
            add_times(direction, column->values[k], inverse, lp->size + 1);
    }
}

static void eliminate(const struct lp *lp, uint32_t position, double *vector)
{
    double part = vector[position] / lp->direction[position];
    if (part != 0)
        add_times(vector, -part, lp->direction, lp->size + 1);
    vector[position] = part;
}

static void basis_put(struct lp *lp, uint32_t position, uint32_t variable)
{
    lp->basis[position] = variable;
    if (variable >= lp->rows)
        lp->columns[variable - lp->rows].position = position;
}

static void swap(double *vector, uint32_t a, uint32_t b)
{
    double kept = vector[a];
    vector[a] = vector[b];
    vector[b] = kept;
}

/* Store e_j as column j. */
static void inverse_store(struct lp *lp, uint32_t j)
{
    lp->inverse[j] = lp->spare[--lp->spare_count];
    memset(lp->inverse[j], 0, ((size_t)lp->size + 1) * sizeof **lp->inverse);
    lp->inverse[j][j] = 1;
}

static void inverse_drop(struct lp *lp, uint32_t j)
{
    if (lp->inverse[j])
        lp->spare[lp->spare_count++] = lp->inverse[j];
    lp->inverse[j] = NULL;
}

/* Let a variable enter at a position, along its direction; move a slack from there to its
 * own position. */
static void pivot(struct lp *lp, uint32_t position, uint32_t entering)
{
    uint32_t leaving = lp->basis[position];
    if (!lp->inverse[position])
        inverse_store(lp, position);
    if (entering < lp->rows) {
        inverse_drop(lp, entering);
        swap(lp->direction, position, entering);
        swap(lp->value, position, entering);
        for (uint32_t j = 0; j < lp->size; j++)
            if (lp->inverse[j])
                swap(lp->inverse[j], position, entering);
        basis_put(lp, position, lp->basis[entering]);
        position = entering;
    }
    for (uint32_t j = 0; j < lp->size; j++)
        if (lp->inverse[j])
            eliminate(lp, position, lp->inverse[j]);
    eliminate(lp, position, lp->value);
    if (leaving != NONE && leaving >= lp->rows)
        lp->columns[leaving - lp->rows].position = NONE;
    basis_put(lp, position, entering);
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

/* Compute the inverse for the basic slacks and the columns that have a position. Returns
 * false if the basis is singular. */
static bool factor(struct lp *lp)
{
    lp->pivots_to_factor = FACTOR_PIVOTS;
    for (uint32_t i = 0; i < lp->size; i++) {
        inverse_drop(lp, i);
        lp->basis[i] = i < lp->rows && lp->basis[i] == i ? i : NONE;
        lp->value[i] = i < lp->rows ? raised(i) : 1;
    }
    lp->value[lp->size] = 0;
    for (uint32_t c = 0; c < lp->columns_count; c++) {
        if (lp->columns[c].position == NONE)
            continue;
        direction_set(lp, lp->rows + c);
        uint32_t position = free_find(lp);
        if (position == NONE)
            return false;
        pivot(lp, position, lp->rows + c);
    }
    return true;
}

/* Start with T, the first open column of each group, and the slacks of all rows but the
 * busiest. Returns false if a group has no open column. */
static bool start(struct lp *lp)
{
    double *load = lp->direction;
    uint32_t busiest = 0, groups = 0;
    memset(load, 0, lp->size * sizeof *load);
    for (uint32_t c = 1; c < lp->columns_count; c++) {
        struct column *column = &lp->columns[c];
        column->position = NONE;
        if (column->cost > 0 || load[column->rows[column->count - 1]] > 0)
            continue;
        for (uint32_t k = 0; k < column->count; k++)
            load[column->rows[k]] += column->values[k];
        column->position = 0; /* factor finds the true one */
        groups++;
    }
    for (uint32_t i = 0; i < lp->rows; i++) {
        lp->basis[i] = i;
        if (load[i] - raised(i) > load[busiest] - raised(busiest))
            busiest = i;
    }
    lp->basis[busiest] = NONE;
    if (groups < lp->size - lp->rows)
        return false;
    lp->columns[0].position = 0;
    return factor(lp);
}

/* ---- the method -------------------------------------------------------------------- */

static double reduced_cost(const struct lp *lp, const struct column *column)
{
    double cost = column->cost;
    for (uint32_t k = 0; k < column->count; k++) {
        const double *inverse = lp->inverse[column->rows[k]];
        cost += inverse ? column->values[k] * inverse[lp->size] : 0;
    }
    return cost;
}

/* Return a variable with a reduced cost below 0, the least of those that were priced: all
 * slacks, and columns from where the last call stopped, a section or until there is one.
 * NONE: the basis is optimal. */
static uint32_t entering_find(struct lp *lp)
{
    uint32_t best = NONE, count = lp->columns_count, section = SECTION_ROWS * lp->rows;
    double least = -COST_NEAR;
    for (uint32_t i = 0; i < lp->rows; i++)
        if (lp->inverse[i] && lp->inverse[i][lp->size] < least) {
            least = lp->inverse[i][lp->size];
            best = i;
        }
    for (uint32_t n = 0; n < count && (n < section || best == NONE); n++) {
        const struct column *column = &lp->columns[lp->priced];
        bool enters = column->position == NONE && column->cost <= 0;
        double cost = enters ? reduced_cost(lp, column) : 0;
        if (cost < least) {
            least = cost;
            best = lp->rows + lp->priced;
        }
        lp->priced = lp->priced + 1 < count ? lp->priced + 1 : 0;
    }
    return best;
}

/* Return the position with the shortest step to 0, and of nearly equal ones that with the
 * largest pivot element; NONE: the variables only rise. */
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

bool lp_solve(struct lp *lp)
{
    if (lp->columns[0].position == NONE && !start(lp))
        return false;
    for (; lp->pivots_left > 0; lp->pivots_left--) {
        if (lp->pivots_to_factor-- == 0 && !factor(lp))
            return false;
        uint32_t entering = entering_find(lp);
        if (entering == NONE)
            return true;
        direction_set(lp, entering);
        uint32_t position = leaving_find(lp);
        if (position == NONE)
            return false;
        lp->value[position] = fmax(lp->value[position], 0); /* else the next may fall */
        pivot(lp, position, entering);
    }
    return false;
}

void lp_column_shut(struct lp *lp, uint32_t column, bool shut)
{
    struct column *changed = &lp->columns[column + 1];
    double cost = shut ? 2 * (1 + lp->most) : 0, more = cost - changed->cost;
    changed->cost = cost;
    for (uint32_t j = 0; changed->position != NONE && j < lp->size; j++)
        if (lp->inverse[j])
            lp->inverse[j][lp->size] -= more * lp->inverse[j][changed->position];
}

/* ---- results ----------------------------------------------------------------------- */

/* Return a column's value, without what the right sides are raised by. */
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
