/* SPDX-License-Identifier: Apache-2.0 */
/** @file ucx_bulk.h
 *  Bulk: tagged messages. */
#ifndef TRYST_TRANSPORTS_UCX_UCX_BULK_H
#define TRYST_TRANSPORTS_UCX_UCX_BULK_H

#include "ucx_private.h"

tryst_status ucx_bulk_recv(struct endpoint *ep, struct bulk *bulk);
tryst_status ucx_bulk_send(struct endpoint *ep, struct bulk *bulk);
void ucx_bulk_cancel(struct endpoint *ep, struct bulk *bulk);
/** Cancel every receive: afterwards UCX holds only direct ones that are matched. */
void ucx_bulk_cancel_all(struct ucx_ep *ep);
/** Complete every bulk with `status`, after the worker is gone. */
void ucx_bulk_abandon_all(struct ucx_ep *ep, tryst_status status);
/** Take in messages without a receive; returns how many. */
int ucx_bulk_drain(struct ucx_rail *rail);

#endif
