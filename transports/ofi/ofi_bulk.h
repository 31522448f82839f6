/* SPDX-License-Identifier: Apache-2.0 */
/** @file ofi_bulk.h
 *  Bulk: tagged messages of one pair. */
#ifndef OFI_BULK_H
#define OFI_BULK_H

#include "ofi_private.h"

tryst_status ofi_bulk_recv(struct endpoint *ep, struct bulk *bulk);
tryst_status ofi_bulk_send(struct endpoint *ep, struct bulk *bulk);
void ofi_bulk_cancel(struct endpoint *ep, struct bulk *bulk);
/** The fabric has finished with `op`: `error` is one of FI_E…, or 0. */
void ofi_bulk_completed(struct ofi_op *op, int error, size_t bytes);
/** One of the peer's records. */
void ofi_bulk_record(struct ofi_ep *ep, const struct ofi_record *record);
/** Open the pair's fabric endpoint and tell its place, if that was not done. */
tryst_status ofi_bulk_open(struct ofi_ep *ep);
/** Bulk connections that this process has no descriptor for: nobody else would ever say so. */
void ofi_bulk_watch(struct ofi_rail *rail);
/** The initiator's greeting, or its receive at the other side. TRYST_AGAIN: try later. */
tryst_status ofi_bulk_greet(struct ofi_ep *ep);
/** Start held sends. TRYST_AGAIN: the fabric has no room for some. */
tryst_status ofi_held_start(struct ofi_ep *ep);
/** Ask the fabric for every receive back. */
void ofi_bulk_cancel_all(struct ofi_ep *ep);
/** The fabric's endpoint is closed: all that is left completes. */
void ofi_bulk_abandon(struct ofi_ep *ep);

#endif
