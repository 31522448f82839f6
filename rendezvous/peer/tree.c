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

static bool is_alive(const struct tryst_group *group, int rank)
{
    const struct peer *peer = group->peers[rank];
    return peer ? peer->life == PEER_ALIVE && !peer_is_refused(peer)
                : !group_has_left(group, rank);
}

/** The nearest living ancestor of `rank` in a binary tree; for a child of a dead root the lowest
 *  living rank. -1: none. */
int peer_tree_parent(const struct tryst_group *group, int rank)
{
    for (int up = (rank - 1) / 2; rank > 0; up = (up - 1) / 2) {
        if (is_alive(group, up))
            return up;
        if (up == 0)
            break;
    }
    for (int low = 0; low < rank; low++)
        if (is_alive(group, low))
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
    struct peer *peer = peer_get(rdv->group, parent);
    rdv->join_again = !peer;
    if (!peer)
        return;
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
        if (group_has_left(group, i))
            left_send(to, i);
}

void peer_left_note(struct rendezvous *rdv, int rank, const struct peer *from)
{
    struct tryst_group *group = rdv->group;
    struct peer *peer = group->peers[rank];
    if (group_has_left(group, rank))
        return;
    group->left[rank / 64] |= 1ull << rank % 64;
    if (peer) {
        peer->left = true;
        if (peer->life == PEER_ALIVE)
            peer->life = PEER_LEFT;
        peer_show(peer);
    }
    rdv->tick_ns = 0;
    list_for_each_safe (&group->met, node, after) {
        struct peer *to = container_of(node, struct peer, node);
        if (to != from && peer_tree_neighbours(group, group->roster.rank, to->rank))
            left_send(to, rank);
    }
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
    const struct peer *peer = group->peers[left.rank];
    if (!peer || peer->link.state != PEER_LINK_UP) /* else it says so itself, last */
        peer_left_note(from->rdv, left.rank, from);
}
