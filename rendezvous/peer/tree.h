/* SPDX-License-Identifier: Apache-2.0 */
/** @file tree.h
 *  The control tree, and ranks that have left (tree.c).
 */
#ifndef TRYST_RENDEZVOUS_PEER_TREE_H
#define TRYST_RENDEZVOUS_PEER_TREE_H

#include "rendezvous/peer/peer.h"

/** Return the parent of `rank` in the control tree of the ranks that this rank believes
 *  to be alive; -1: none. */
int peer_tree_parent(const struct tryst_group *group, int rank);
/** True if one of the two ranks is the other's parent in the control tree. */
bool peer_tree_neighbours(const struct tryst_group *group, int a, int b);
/** Connect to this rank's parent; without memory a tick tries again (`join_again`). */
void peer_tree_join(struct rendezvous *rdv);
/** Join another parent if the peer, which is gone, was the parent. */
void peer_tree_repair(struct peer *peer);
/** Note that the peer has left in good order, as its own LEAVE reports, and forward that
 *  through the control tree: a rank without a link to it would take it for dead. */
void peer_left_note(struct peer *peer);
/** Drop the reports of other ranks that the peer has left: it has just shown a valid
 *  HELLO. */
void peer_left_undo(struct peer *peer);
void peer_left_read(struct peer *from, const void *data, size_t bytes);
/** Send the list of ranks that have left. */
void peer_left_send_all(struct peer *to);

#endif
