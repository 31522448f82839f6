/* SPDX-License-Identifier: Apache-2.0 */
/** @file ofi_bulk.h
 *  Bulk: tagged messages of one pair. */
#ifndef TRYST_TRANSPORTS_OFI_OFI_BULK_H
#define TRYST_TRANSPORTS_OFI_OFI_BULK_H

#include "ofi_private.h"

tryst_status ofi_bulk_recv(struct endpoint *ep, struct bulk *bulk);
tryst_status ofi_bulk_send(struct endpoint *ep, struct bulk *bulk);
void ofi_bulk_cancel(struct endpoint *ep, struct bulk *bulk);
/** Handle a completed operation: the fabric has finished with `op`, with `error` (FI_E…)
 *  or 0. */
void ofi_bulk_completed(struct ofi_op *op, int error, size_t bytes);
/** Handle one of the peer's records. */
void ofi_bulk_record(struct ofi_ep *ep, const struct ofi_record *record);
/** Open the pair's fabric endpoint and queue its address for the peer, unless that was
 *  done before. */
tryst_status ofi_bulk_open(struct ofi_ep *ep);
/** Fail bulk connections for which this process has no descriptor: libfabric reports
 *  nothing of them. */
void ofi_bulk_watch(struct ofi_rail *rail);
/** Send the greeting, at the initiator; post its receive, at the other side. TRYST_AGAIN:
 *  try later. */
tryst_status ofi_bulk_greet(struct ofi_ep *ep);
/** Start held sends. TRYST_AGAIN: the fabric has no room for some. */
tryst_status ofi_held_start(struct ofi_ep *ep);
/** Cancel every receive of the endpoint at the fabric. */
void ofi_bulk_cancel_all(struct ofi_ep *ep);
/** Complete all that is left, after the fabric's endpoint was closed. */
void ofi_bulk_abandon(struct ofi_ep *ep);

#endif
