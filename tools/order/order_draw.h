/* SPDX-License-Identifier: Apache-2.0 */
/** @file order_draw.h
 *  Draws a profile under each order as an SVG. */
#ifndef TRYST_TOOLS_ORDER_ORDER_DRAW_H
#define TRYST_TOOLS_ORDER_ORDER_DRAW_H

#include "order.h"

/** The pictures of a step: rows one below the other. */
struct order_rows {
    struct order_row *rows; /**< [count] */
    uint32_t count;
    struct oracle_network network; /**< of the rows in virtual time */
    struct order_figures figures;
};

/** Draw all rows to the picture file of `job`. Returns the exit status, after a message
 *  on stderr if it is not 0. */
int order_draw(const struct order_job *job, const struct order_rows *rows);

/** Give each action the first lane that is free at its start. `lanes` [nodes] gets the
 *  lane of each action, `sorted` [nodes] the actions by their start. Returns the number
 *  of actions; *lanes_count_p is at least 1. `ends` [nodes] is room for the call. */
uint32_t order_lanes_assign(const struct order_profile *profile,
                            const struct order_row *row, uint32_t *lanes,
                            uint32_t *sorted, double *ends, uint32_t *lanes_count_p);

#endif
