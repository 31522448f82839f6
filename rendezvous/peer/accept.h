/* SPDX-License-Identifier: Apache-2.0 */
/** @file accept.h
 *  Connections that other ranks have opened to this one (accept.c).
 */
#ifndef TRYST_RENDEZVOUS_PEER_ACCEPT_H
#define TRYST_RENDEZVOUS_PEER_ACCEPT_H

#include "rendezvous/peer/peer.h"

/** Take a connection from the listener. Its first message, HELLO, identifies the peer. */
void peer_link_accept(struct rendezvous *rdv, struct link *link);
void peer_hello_links_close(struct rendezvous *rdv);
/** Close the sockets in a forked child. */
void peer_hello_links_forked(struct rendezvous *rdv);

#endif
