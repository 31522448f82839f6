/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The restricted master: min T over the shares x ≥ 0 of columns, where
 *
 *     for each row r:    sum of value[c][r] × x[c]  ≤  T
 *     for each group g:  sum of x[c], c in g        =  1
 *
 * One idea: Clp solves it, and is opened at run time through a small table of its C functions, so that
 * nothing of ours makes a program load a C++ library and LAPACK; where it is not installed, lp_open says
 * TRYST_E_UNSUPPORTED and multiplicative weights do everything.
 * Invariants: values should be about 1 (the caller scales); the model stays warm: columns are appended
 * and may be shut, and a solve starts from the basis before. Clp writes nothing and calls no clock.
 * Threads: one at a time for each object.
 * Callers: plan_columns.c, plan_simplify.c.
 */
#ifndef TRYST_TOPOLOGY_LP_H
#define TRYST_TOPOLOGY_LP_H

#include <stdbool.h>
#include <stdint.h>

#include "core/text/err.h"

/* What a solve costs beside its pivots, in pivots: Clp factorises the basis anew. Measured at 256 rows. */
#define LP_SOLVE_PIVOTS 100

struct lp;

/** TRYST_E_UNSUPPORTED: no Clp here (said once, in a log line). TRYST_E_NOMEM. */
tryst_status lp_open(uint32_t rows_count, uint32_t groups_count, struct lp **lp_p);
void lp_close(struct lp *lp);

/** Columns number from 0. Copies what is handed in. TRYST_E_NOMEM. */
tryst_status lp_column_add(struct lp *lp, uint32_t group, uint32_t values_count,
                           const uint32_t *rows, const double *values);
/** A column that is shut keeps its number and has no share. */
void lp_column_shut(struct lp *lp, uint32_t column, bool shut);

/** False: infeasible, or given up after `pivots_max` (0: none) pivots. The basis stays either way. */
bool lp_solve(struct lp *lp, uint32_t pivots_max);

/** Of the last solve. Prices are ≥ 0 and sum to 1. */
double lp_time(const struct lp *lp);
double lp_share(const struct lp *lp, uint32_t column);
void lp_prices(const struct lp *lp, double *price_p);
uint32_t lp_pivots(const struct lp *lp);

#endif
