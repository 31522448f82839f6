/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The restricted master problem of column generation: min T over the shares x ≥ 0 of
 * columns, where
 *
 *     for each row r:    sum of value[c][r] × x[c]  ≤  T
 *     for each group g:  sum of x[c], c in g        =  1
 *
 * One idea: the primal simplex method with the inverse of the basis, of which only the
 * columns of tight rows are stored, so the work grows with the columns in use.
 * Invariants: values should be about 1 (the caller scales). The basis stays: columns are
 * appended and may be shut, and a solve starts from the previous basis. Equal calls give
 * equal bits.
 * Threads: one at a time for each object.
 */
#ifndef TRYST_TOPOLOGY_PLAN_LP_H
#define TRYST_TOPOLOGY_PLAN_LP_H

#include <stdbool.h>
#include <stdint.h>

#include "tryst/status.h"

struct lp;

/** Create the program without columns. All solves together make at most `pivots_max`
 *  pivots. Returns TRYST_OK or TRYST_E_NOMEM. */
tryst_status lp_open(uint32_t rows_count, uint32_t groups_count, uint32_t pivots_max,
                     struct lp **lp_p);
void lp_close(struct lp *lp);

/** Append a column; columns number from 0. `rows` and `values` are copied.
 *  Returns TRYST_OK or TRYST_E_NOMEM. */
tryst_status lp_column_add(struct lp *lp, uint32_t group, uint32_t values_count,
                           const uint32_t *rows, const double *values);
/** Shut a column, or open it again. A shut column keeps its number and has no share while
 *  another one of its group is open. */
void lp_column_shut(struct lp *lp, uint32_t column, bool shut);

/** Solve from the previous basis. Returns false if a group has no column, or the
 *  pivots are used up; the basis is kept. */
bool lp_solve(struct lp *lp);

/** Return T of the last solve. */
double lp_time(const struct lp *lp);
/** Return a column's share in the last solve. */
double lp_share(const struct lp *lp, uint32_t column);
/** Write the prices of the rows in the last solve: ≥ 0, with sum 1. */
void lp_prices(const struct lp *lp, double *price_p);

#endif
