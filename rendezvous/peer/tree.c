/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control tree, and who has left.
 *
 * Idea: a binary tree of links reaches every rank, for what all are to hear of (aborts, who has left);
 * a rank whose parent is gone joins the next living one. Who has left in good order is passed on
 * along it, since a rank without a link to that one would take it for dead.
 * Callers: joining and leaving a group, the link.
 */
#include "tree.h"

#include <string.h>

#include "link.h"
#include "liveness.h"
#include "messages.h"
#include "rendezvous/op/engine.h"

/* ---- control tree ------------------------------------------------------------------------- */

/** The nearest living ancestor of `rank` in a binary tree; for a child of a dead root the lowest
 *  living rank. -1: none. */
int peer_tree_parent(const struct tryst_group *group, int rank)
{
    for (int up = (rank - 1) / 2; rank > 0; up = (up - 1) / 2) {
        if (group->peers[up].life == PEER_ALIVE && !peer_is_refused(&group->peers[up]))
            return up;
        if (up == 0)
            break;
    }
    for (int low = 0; low < rank; low++)
        if (group->peers[low].life == PEER_ALIVE && !peer_is_refused(&group->peers[low]))
            return low;
    return -1;
}

bool peer_tree_neighbours(const struct tryst_group *group, int a, int b)
{
    return peer_tree_parent(group, a) == b || peer_tree_parent(group, b) == a;
}

void peer_tree_join(struct rendezvous *rdv)
{
    int parent = peer_tree_parent(rdv->group, rdv->group->roster.rank);
    if (parent < 0)
        return;
    struct peer *peer = &rdv->group->peers[parent];
    peer->link.tree_parent = true;
    if (peer->link.state == PEER_LINK_NONE)
        peer_link_connect(peer);
}

void peer_tree_repair(struct peer *peer)
{
    if (peer->link.tree_parent && !peer->rdv->leaving)
        peer_tree_join(peer->rdv);
    peer->link.tree_parent = false;
}

/* ---- who has left ------------------------------------------------------------------------- */

static void left_send(struct peer *to, int32_t rank)
{
    struct link_left left = {.rank = rank};
    if (to->link.link && to->rank != rank && !to->left) /* read after our HELLO */
        (void)link_send(to->link.link, LINK_LEFT, &left, sizeof left, -1);
}

void peer_left_send_all(struct peer *to)
{
    const struct tryst_group *group = to->rdv->group;
    for (int i = 0; i < group->roster.size; i++)
        if (group->peers[i].left)
            left_send(to, i);
}

/** The rank has left in good order. All hear of it through the control tree, since a rank without
 *  a link to it would take it for dead. */
void peer_left_note(struct peer *peer, const struct peer *from)
{
    const struct tryst_group *group = peer->rdv->group;
    if (peer->left)
        return;
    peer->left = true;
    if (peer->life == PEER_ALIVE)
        peer->life = PEER_LEFT;
    peer_show(peer);
    peer->rdv->tick_ns = 0;
    for (int i = 0; i < group->roster.size; i++)
        if (&group->peers[i] != from &&
            peer_tree_neighbours(group, group->roster.rank, i))
            left_send(&group->peers[i], peer->rank);
}

void peer_left_read(struct peer *from, const void *data, size_t bytes)
{
    const struct tryst_group *group = from->rdv->group;
    struct link_left left;
    if (bytes != sizeof left)
        return;
    memcpy(&left, data, sizeof left);
    if (left.rank < 0 || left.rank >= group->roster.size ||
        left.rank == group->roster.rank)
        return;
    struct peer *peer = &group->peers[left.rank];
    if (peer->link.state !=
        PEER_LINK_UP) /* else it says so itself, after its last frames */
        peer_left_note(peer, from);
}
