/* SPDX-License-Identifier: Apache-2.0 */
/** @file order_draw.h
 *  Draws a profile under each order as an SVG. */
#ifndef TRYST_TOOLS_ORDER_ORDER_DRAW_H
#define TRYST_TOOLS_ORDER_ORDER_DRAW_H

#include "order.h"

/** Draw the profile of `job` to its file. Returns the exit status, after
 *  a message on stderr if it is not 0. */
int order_draw(const struct order_job *job, const tryst_profile_params *params,
               const struct order_figures *figures);

#endif
