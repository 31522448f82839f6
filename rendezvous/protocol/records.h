/* SPDX-License-Identifier: Apache-2.0 */
/** @file records.h
 *  Packing and reading of records in frames (records.c).
 */
#ifndef TRYST_RENDEZVOUS_PROTOCOL_RECORDS_H
#define TRYST_RENDEZVOUS_PROTOCOL_RECORDS_H

#include "rendezvous/peer/peer.h"

/** Check a frame and act on its records; a malformed frame ends the peer. */
void records_read(struct peer *peer, const void *frame, size_t bytes);
/** Pack the records that are queued for the peer into `frame`. Returns the frame's bytes;
 *  0: no record was packed (none is needed any more, or DATA waits for a place in the
 *  stream). */
size_t records_pack(struct peer *peer, uint8_t *frame, size_t capacity);
/** Write the header of a frame with `records` records and these flags, and count its
 *  acknowledgements and credit as sent. */
void frame_header_put(struct peer *peer, uint8_t *frame, unsigned records,
                      unsigned flags);

#endif
