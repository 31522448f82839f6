/* SPDX-License-Identifier: Apache-2.0 */
/** @file order_row.h
 *  A row of a picture or trace: when everything ran in one step, in virtual time or
 *  measured. */
#ifndef TRYST_TOOLS_ORDER_ORDER_ROW_H
#define TRYST_TOOLS_ORDER_ORDER_ROW_H

#include "order.h"

struct order_row {
    char name[48];
    bool is_measured;
    bool in_buckets;           /**< a piece is a bucket, named by its first operation */
    tryst_profile_order order; /**< in virtual time */
    double seconds;
    tryst_profile_span *spans;   /**< [nodes of the profile] */
    tryst_profile_piece *pieces; /**< [pieces_count], in the order of time */
    uint32_t pieces_count;
};

/** The pictures of a step: rows one below the other. */
struct order_rows {
    struct order_row *rows; /**< [count] */
    uint32_t count;
    tryst_profile_params params; /**< of the rows in virtual time */
    struct order_figures figures;
};

/** Make the row of an order in virtual time. */
tryst_status order_row_replay(tryst_profile *profile, const tryst_profile_params *params,
                              struct order_row *row_p);
/** Make a row of measured times. `spans` [nodes of the profile] are copied; `pieces`
 *  [count] becomes the row's, each from its submission to its end. What an operation had
 *  of the network is not known: here a piece begins with its submission, or where the
 *  piece that ended before it ended. TRYST_E_NOMEM: `pieces` stays the caller's. */
tryst_status order_row_measured(const char *name, const tryst_profile *profile,
                                const tryst_profile_span *spans,
                                tryst_profile_piece *pieces, uint32_t count,
                                double seconds, struct order_row *row_p);
/** A row of zeros is allowed. */
void order_row_free(struct order_row *row);

/** Give each action the first lane that is free at its start. `lanes` [nodes] gets the
 *  lane of each action, `sorted` [nodes] the actions by their start. Returns the number
 *  of actions; *lanes_count_p is at least 1. `ends` [nodes] is room for the call. */
uint32_t order_lanes_assign(const tryst_profile *profile, const struct order_row *row,
                            uint32_t *lanes, uint32_t *sorted, double *ends,
                            uint32_t *lanes_count_p);

#endif
