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

/** Mark the nodes that come after an operation, at any distance; the caller frees the
 *  array. */
bool *order_needs(const struct order_profile *profile);

#endif
