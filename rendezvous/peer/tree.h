/* SPDX-License-Identifier: Apache-2.0 */
/** @file tree.h
 *  The control tree, and who has left (tree.c).
 */
#ifndef RENDEZVOUS_PEER_TREE_H
#define RENDEZVOUS_PEER_TREE_H

#include "rendezvous/peer/peer.h"

/** The rank that this one's link in the control tree leads to, as far as we know who lives; -1: none. */
int peer_tree_parent(const struct tryst_group *group, int rank);
/** Is one of the two the other's parent there? */
bool peer_tree_neighbours(const struct tryst_group *group, int a, int b);
/** Connect to our parent. */
void peer_tree_join(struct rendezvous *rdv);
/** The peer is gone: if it was our parent, join another. */
void peer_tree_repair(struct peer *peer);
/** The rank has left in good order, says `from`; all hear of it. */
void peer_left_note(struct peer *peer, const struct peer *from);
void peer_left_read(struct peer *from, const void *data, size_t bytes);
/** Tell the peer of all who have left. */
void peer_left_send_all(struct peer *to);

#endif
