/* SPDX-License-Identifier: Apache-2.0 */
/** @file ucx_rail.h
 *  Rails. */
#ifndef UCX_RAIL_H
#define UCX_RAIL_H

#include "ucx_private.h"

/** Are there descriptors for one more endpoint to connect? */
bool ucx_rail_has_room(const struct ucx_rail *rail);
/** Last resort: destroy the worker, so that nothing touches our memory any more. */
void ucx_rail_abandon(struct ucx_rail *rail);

#endif
