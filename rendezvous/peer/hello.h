/* SPDX-License-Identifier: Apache-2.0 */
/** @file hello.h
 *  HELLO, the first message each way on a link: it identifies the rank (hello.c).
 */
#ifndef TRYST_RENDEZVOUS_PEER_HELLO_H
#define TRYST_RENDEZVOUS_PEER_HELLO_H

#include "rendezvous/peer/peer.h"

void hello_send(struct peer *peer, struct link *link);
/** Return the peer that a first message identifies, or NULL with the reason in
 *  `*wrong_p`. */
struct peer *hello_check(struct rendezvous *rdv, uint8_t type, const void *data,
                         size_t bytes, const char **wrong_p);

#endif
