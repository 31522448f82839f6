/* SPDX-License-Identifier: Apache-2.0 */
/** @file records.h
 *  Reading of frames (records.c).
 */
#ifndef TRYST_RENDEZVOUS_PROTOCOL_RECORDS_H
#define TRYST_RENDEZVOUS_PROTOCOL_RECORDS_H

#include "rendezvous/peer/peer.h"

/** Check a frame and act on its records; a malformed frame ends the peer. */
void records_read(struct peer *peer, const void *frame, size_t bytes);

#endif
