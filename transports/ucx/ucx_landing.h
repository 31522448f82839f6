/* SPDX-License-Identifier: Apache-2.0 */
/** @file ucx_landing.h
 *  Receives that can be withdrawn at any moment. */
#ifndef TRYST_TRANSPORTS_UCX_UCX_LANDING_H
#define TRYST_TRANSPORTS_UCX_UCX_LANDING_H

#include "ucx_private.h"

tryst_status ucx_landings_open(struct ucx_rail *rail);
/** Free all landings, after the worker was closed. */
void ucx_landings_close(struct ucx_rail *rail);
/** Get a landing for a receive of `bulk`. NULL: out of memory. */
struct ucx_landing *ucx_landing_get(struct ucx_rail *rail, struct ucx_bulk *bulk);
void ucx_landing_put(struct ucx_landing *landing);
/** Detach the buffer from the landing. UCX keeps its receive, which no longer reaches the
 *  caller's memory. */
void ucx_landing_revoke(struct ucx_landing *landing);

#endif
