/* SPDX-License-Identifier: Apache-2.0 */
/** @file ofi_ep.h
 *  Endpoints: connecting, failing, closing (ofi_ops). */
#ifndef TRYST_TRANSPORTS_OFI_OFI_EP_H
#define TRYST_TRANSPORTS_OFI_OFI_EP_H

#include "ofi_private.h"

tryst_status ofi_ep_open(struct rail *rail, const struct ep_params *params,
                         struct endpoint **ep_p);
void ofi_ep_message(struct endpoint *ep, const void *data, size_t bytes, int fd);
void ofi_ep_close(struct endpoint *ep);
/** Do the work that ep->fabric.work notes; returns the number of events. May free
 *  `ep`. */
int ofi_ep_work(struct ofi_ep *ep);
void ofi_ep_ready_report(struct ofi_ep *ep);
/** Insert an address of the peer, and get the fabric's number for it as *peer_p, which
 *  must be FI_ADDR_UNSPEC before. False: the endpoint has failed. */
bool ofi_address_insert(struct ofi_ep *ep, const void *data, size_t bytes,
                        fi_addr_t *peer_p);

#endif
