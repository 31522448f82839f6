/* SPDX-License-Identifier: Apache-2.0 */
/** @file records.h
 *  Frames of records, packed and read (records.c).
 */
#ifndef RENDEZVOUS_PROTOCOL_RECORDS_H
#define RENDEZVOUS_PROTOCOL_RECORDS_H

#include "rendezvous/peer/peer.h"

void records_read(struct peer *peer, const void *frame, size_t bytes);
/** Pack what is queued for the peer into `frame`; returns its bytes, 0 when there is nothing to say. */
size_t records_pack(struct peer *peer, uint8_t *frame, size_t capacity);
void frame_header_put(struct peer *peer, uint8_t *frame, unsigned records,
                      unsigned flags);

#endif
