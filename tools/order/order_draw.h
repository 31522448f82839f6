/* SPDX-License-Identifier: Apache-2.0 */
/** @file order_draw.h
 *  Draws a profile under each order as an SVG. */
#ifndef TRYST_TOOLS_ORDER_ORDER_DRAW_H
#define TRYST_TOOLS_ORDER_ORDER_DRAW_H

#include "order_row.h"

/** Draw all rows to the picture file of `job`. Returns the exit status, after a message
 *  on stderr if it is not 0. */
int order_draw(const struct order_job *job, const struct order_rows *rows);

#endif
