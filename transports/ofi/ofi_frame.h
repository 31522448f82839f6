/* SPDX-License-Identifier: Apache-2.0 */
/** @file ofi_frame.h
 *  Messages between rails: the handshake, records, and frames. */
#ifndef TRYST_TRANSPORTS_OFI_OFI_FRAME_H
#define TRYST_TRANSPORTS_OFI_OFI_FRAME_H

#include "ofi_private.h"

tryst_status ofi_frame_begin(struct endpoint *ep, size_t max, void **frame_p);
void ofi_frame_commit(struct endpoint *ep, size_t bytes);
/** Send a message of `kind`. A DATA message also carries as many of the endpoint's
 *  records as fit. TRYST_OK, TRYST_AGAIN (no room now), TRYST_E_PEER. */
tryst_status ofi_message_send(struct ofi_ep *ep, enum ofi_kind kind, const void *data,
                              size_t bytes);
void ofi_message_sent(struct ofi_rail *rail, struct ofi_packet *packet, int error);
void ofi_message_received(struct ofi_rail *rail, struct ofi_packet *packet, size_t bytes);
/** Post a receive of a message. */
void ofi_message_post(struct ofi_rail *rail, struct ofi_packet *packet);
void ofi_record_add(struct ofi_ep *ep, enum ofi_record_kind kind, uint64_t tag,
                    uint64_t value);
/** Send the endpoint's unsent frame, PLACE if it is due, and all records. TRYST_AGAIN:
 *  some of these are left. */
tryst_status ofi_records_send(struct ofi_ep *ep);

#endif
