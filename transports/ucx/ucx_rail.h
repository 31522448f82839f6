/* SPDX-License-Identifier: Apache-2.0 */
/** @file ucx_rail.h
 *  Rails (ucx_ops). */
#ifndef UCX_RAIL_H
#define UCX_RAIL_H

#include "ucx_private.h"

tryst_status ucx_rail_open(const struct rail_params *params, struct rail **rail_p);
void ucx_rail_close(struct rail *rail);
int ucx_rail_progress(struct rail *rail);
tryst_status ucx_rail_arm(struct rail *rail);
tryst_status ucx_mem_register(struct rail *rail, struct tryst_mem *mem, void **handle_p);
void ucx_mem_unregister(struct rail *rail, void *handle);
/** Are there descriptors for one more endpoint to connect? */
bool ucx_rail_has_room(const struct ucx_rail *rail);
/** Last resort: destroy the worker, so that nothing touches our memory any more. */
void ucx_rail_abandon(struct ucx_rail *rail);

#endif
