/* SPDX-License-Identifier: Apache-2.0 */
/** @file ucx_bulk.h
 *  Bulk: tagged messages. */
#ifndef TRYST_TRANSPORTS_UCX_UCX_BULK_H
#define TRYST_TRANSPORTS_UCX_UCX_BULK_H

#include "ucx_private.h"

tryst_status ucx_bulk_recv(struct endpoint *ep, struct bulk *bulk);
tryst_status ucx_bulk_send(struct endpoint *ep, struct bulk *bulk);
void ucx_bulk_cancel(struct endpoint *ep, struct bulk *bulk);
/** Cancel every receive of the endpoint. Afterwards only matched receives of a direct
 *  rail are still active. */
void ucx_bulk_cancel_all(struct ucx_ep *ep);
/** Complete every bulk with `status`, after the worker is gone. */
void ucx_bulk_abandon_all(struct ucx_ep *ep, tryst_status status);
/** Handle messages without a posted receive, 16 at most; returns their number. */
int ucx_bulk_drain(struct ucx_rail *rail);
/** True if a message without a posted receive has come. The rail has a worker. */
bool ucx_bulk_drain_is_due(const struct ucx_rail *rail);

#endif
