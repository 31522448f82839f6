/* SPDX-License-Identifier: Apache-2.0 */
/** @file accept.h
 *  Connections that others have made to us (accept.c).
 */
#ifndef RENDEZVOUS_PEER_ACCEPT_H
#define RENDEZVOUS_PEER_ACCEPT_H

#include "rendezvous/peer/peer.h"

/** The listener has one: it is a peer's once its HELLO has come. */
void peer_link_accept(struct rendezvous *rdv, struct link *link);
void peer_hello_links_close(struct rendezvous *rdv);
/** In a forked child: close their sockets. */
void peer_hello_links_forked(struct rendezvous *rdv);

#endif
