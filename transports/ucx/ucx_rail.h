/* SPDX-License-Identifier: Apache-2.0 */
/** @file ucx_rail.h
 *  Rails. */
#ifndef TRYST_TRANSPORTS_UCX_UCX_RAIL_H
#define TRYST_TRANSPORTS_UCX_UCX_RAIL_H

#include "ucx_private.h"

/** True if descriptors suffice to connect one more endpoint. */
bool ucx_rail_has_room(const struct ucx_rail *rail);
/** Destroy the worker and fail all endpoints of the rail: the last resort against a
 *  worker that does not release this process's memory. */
void ucx_rail_abandon(struct ucx_rail *rail);

#endif
