/* SPDX-License-Identifier: Apache-2.0 */
/** @file ofi_bulk.h
 *  Bulk: tagged messages of one pair. */
#ifndef TRYST_TRANSPORTS_OFI_OFI_BULK_H
#define TRYST_TRANSPORTS_OFI_OFI_BULK_H

#include "ofi_private.h"

tryst_status ofi_bulk_recv(struct endpoint *ep, struct bulk *bulk);
tryst_status ofi_bulk_send(struct endpoint *ep, struct bulk *bulk);
void ofi_bulk_cancel(struct endpoint *ep, struct bulk *bulk);
/** Handle a completed operation. `error`: FI_E…, or 0. */
void ofi_bulk_completed(struct ofi_op *op, int error, size_t bytes);
/** Handle one of the peer's records. */
void ofi_bulk_record(struct ofi_ep *ep, const struct ofi_record *record);
/** Open the pair's fabric endpoint and queue its address for the peer, unless that was
 *  done before. On failure the endpoint fails; statuses of fabric_ep_usable. */
tryst_status ofi_bulk_open(struct ofi_ep *ep);
/** Fail the endpoints with a bulk connection that this process cannot accept for want of
 *  a descriptor: libfabric does not report this. */
void ofi_bulk_watch(struct ofi_rail *rail);
/** Send the greeting (at the initiator) or post its receive (at the other side), unless
 *  that was done before. TRYST_OK, TRYST_AGAIN (no room now), TRYST_E_PEER. */
tryst_status ofi_bulk_greet(struct ofi_ep *ep);
/** Start the held sends that are matched. TRYST_AGAIN: the fabric has no room for
 *  some. */
tryst_status ofi_held_start(struct ofi_ep *ep);
/** Cancel every receive of the endpoint at the fabric. */
void ofi_bulk_cancel_all(struct ofi_ep *ep);
/** Complete the bulks that are left, after the pair's fabric endpoint was closed or
 *  parked. */
void ofi_bulk_abandon(struct ofi_ep *ep);

#endif
