/* SPDX-License-Identifier: Apache-2.0 */
/** @file hello.h
 *  HELLO, the first message each way on a link: who is there (hello.c).
 */
#ifndef RENDEZVOUS_PEER_HELLO_H
#define RENDEZVOUS_PEER_HELLO_H

#include "rendezvous/peer/peer.h"

void hello_send(struct peer *peer, struct link *link);
/** The peer that a message proves to come from, or NULL with what is wrong with it. */
struct peer *hello_check(struct rendezvous *rdv, uint8_t type, const void *data,
                         size_t bytes, const char **wrong_p);

#endif
