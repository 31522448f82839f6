/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control tree, and ranks that have left.
 *
 * Idea: a binary tree of links carries to every rank what concerns all: aborts, and ranks
 * that have left. A rank joins the next living ancestor when its parent is gone. A leave
 * in good order is forwarded along the tree, since a rank without a link to the rank that
 * left would take that rank for dead.
 *
 * Invariant: a report from another rank proves nothing. The report explains why a
 * connection is refused, and is dropped when the rank shows a valid HELLO. Only LEAVE,
 * from the rank itself, ends its peer.
 */
#include "tree.h"

#include <string.h>

#include "link.h"
#include "liveness.h"
#include "messages.h"
#include "rendezvous/op/engine.h"

/* ---- control tree ------------------------------------------------------------------ */

static bool is_alive(const struct tryst_group *group, int rank)
{
    const struct peer *peer = group->peers[rank];
    return peer ? peer->life == PEER_ALIVE && !peer_is_refused(peer)
                : !group_has_left(group, rank);
}

/* Return the nearest living ancestor of `rank` in a binary tree; without one, the lowest
 * living rank below `rank`; -1: none. */
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
    if (peer->link.tree_parent && peer->rdv->leave.state == LEAVE_NONE)
        peer_tree_join(peer->rdv);
    peer->link.tree_parent = false;
}

/* ---- ranks that have left ---------------------------------------------------------- */

/* Ranks that have left, in ascending order, for one message. */
struct left_ranks {
    struct link_left runs[LINK_LEFTS_MAX];
    size_t count;
};

static_assert(sizeof((struct left_ranks *)0)->runs <= LINK_MESSAGE_MAX, "one message");

/* Append a rank; false if the message is full. */
static bool left_add(struct left_ranks *ranks, int32_t rank)
{
    struct link_left *last = ranks->count ? &ranks->runs[ranks->count - 1] : NULL;
    if (last && last->rank + (int64_t)last->more + 1 == rank) {
        last->more++;
        return true;
    }
    if (ranks->count == LINK_LEFTS_MAX)
        return false;
    ranks->runs[ranks->count++] = (struct link_left){.rank = rank};
    return true;
}

static void left_send(struct peer *to, const struct left_ranks *ranks)
{
    /* LEAVE came: the peer reads nothing more */
    if (to->link.link && ranks->count && !to->left)
        (void)link_send(to->link.link, LINK_LEFT, ranks->runs,
                        ranks->count * sizeof *ranks->runs, -1);
}

void peer_left_send_all(struct peer *to)
{
    const struct tryst_group *group = to->rdv->group;
    struct left_ranks ranks = {.count = 0};
    for (int i = 0; i < group->roster.size; i++) {
        if (!group_has_left(group, i) || left_add(&ranks, i))
            continue;
        left_send(to, &ranks);
        ranks.count = 0;
        left_add(&ranks, i);
    }
    left_send(to, &ranks);
}

/* Note that the rank has left; false if that was noted before. */
static bool left_mark(struct tryst_group *group, int rank)
{
    if (group_has_left(group, rank))
        return false;
    group->left[rank / 64] |= 1ull << rank % 64;
    if (group->peers[rank])
        peer_live_put(group->peers[rank]);
    engine_tick_at(group->rdv, 0);
    return true;
}

/* Send `news` to the neighbours in the control tree, except `from`. */
static void left_forward(struct tryst_group *group, const struct left_ranks *news,
                         const struct peer *from)
{
    list_for_each_safe (&group->met, node, after) {
        struct peer *to = container_of(node, struct peer, node);
        if (to != from && peer_tree_neighbours(group, group->roster.rank, to->rank))
            left_send(to, news);
    }
}

void peer_left_note(struct peer *peer)
{
    struct left_ranks news = {.count = 0};
    peer->left = true;
    if (peer->life == PEER_ALIVE)
        peer->life = PEER_LEFT;
    peer_live_put(peer);
    engine_tick_at(peer->rdv, 0);
    if (left_mark(peer->rdv->group, peer->rank) && left_add(&news, peer->rank))
        left_forward(peer->rdv->group, &news, peer);
}

void peer_left_undo(struct peer *peer)
{
    if (peer->life == PEER_ALIVE)
        peer->rdv->group->left[peer->rank / 64] &= ~(1ull << peer->rank % 64);
}

/* True if a report that the rank has left counts. It does not count while the link to the
 * rank is up: the rank's own LEAVE comes there, behind its frames. */
static bool left_is_news(const struct tryst_group *group, int rank)
{
    const struct peer *peer = group->peers[rank];
    return rank != group->roster.rank && (!peer || peer->link.state != PEER_LINK_UP);
}

/* Mark the ranks of a run as left. Ranks that were not marked before are added to `news`,
 * which is sent when it is full. */
static void left_run_read(struct peer *from, const struct link_left *run,
                          struct left_ranks *news)
{
    struct tryst_group *group = from->rdv->group;
    int64_t end = run->rank + (int64_t)run->more;
    if (run->rank < 0 || end >= group->roster.size)
        return;
    for (int rank = run->rank; rank <= end; rank++) {
        if (!left_is_news(group, rank) || !left_mark(group, rank) || left_add(news, rank))
            continue;
        left_forward(group, news, from);
        news->count = 0;
        left_add(news, rank);
    }
}

void peer_left_read(struct peer *from, const void *data, size_t bytes)
{
    struct left_ranks news = {.count = 0};
    struct link_left run;
    if (bytes % sizeof run || from->life >= PEER_GIVING_UP)
        return;
    for (size_t at = 0; at < bytes; at += sizeof run) {
        memcpy(&run, (const char *)data + at, sizeof run);
        left_run_read(from, &run, &news);
    }
    left_forward(from->rdv->group, &news, from);
}
