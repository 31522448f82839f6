/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections that other ranks have opened to this one, until HELLO shows their rank.
 *
 * Invariants: when both ranks connect at once, the lower rank's connection stays. The
 * lower rank reads the other connection until the peer closes it, since LEAVE may come
 * there.
 */
#include "accept.h"

#include <string.h>

#include "core/memory/alloc.h"
#include "hello.h"
#include "link.h"
#include "messages.h"
#include "rendezvous/op/engine.h"
#include "tree.h"

/* A refused connection is logged at most once in this time, with the number of those not
 * logged. */
#define REFUSED_LOG_NS (10 * NS_PER_S)

static const struct link_events hello_events;

/* An accepted link before its HELLO, or a duplicate link, which may still bring
 * LEAVE. */
struct hello_link {
    struct list_node node;
    struct rendezvous *rdv;
    struct link *link;
    struct peer *peer; /**< NULL before HELLO */
};

static void hello_link_free(struct hello_link *hello)
{
    list_remove(&hello->node);
    mem_free(hello);
}

/* Keep reading a duplicate link. The peer closes it after DUPLICATE, but may leave before
 * that, and LEAVE then comes on this link. */
static void link_linger(struct peer *peer, struct link *link)
{
    struct rendezvous *rdv = peer->rdv;
    struct hello_link *hello = mem_zalloc(sizeof *hello);
    list_for_each_safe (&rdv->hello_links, node, after) {
        struct hello_link *other = container_of(node, struct hello_link, node);
        if (other->peer != peer)
            continue;
        link_close(other->link); /* one duplicate link per peer is enough */
        hello_link_free(other);
    }
    if (!hello) {
        link_close(link);
        return;
    }
    *hello = (struct hello_link){.rdv = rdv, .link = link, .peer = peer};
    list_push_back(&rdv->hello_links, &hello->node);
    link_events_set(link, &hello_events, hello);
}

/* Send the reason to a living peer that was given up here. HELLO
 * comes first, as on each link. */
static void link_give_up(struct peer *peer, struct link *link)
{
    hello_send(peer, link);
    peer_gave_up_send(peer, link);
    link_close(link);
}

/* Answer a peer that may not have read this rank's LEAVE: HELLO, LEAVE, then close. The
 * peer reads them in this order. */
static void link_farewell(struct peer *peer, struct link *link)
{
    static const struct link_heartbeat nothing;
    hello_send(peer, link);
    (void)link_send(link, LINK_LEAVE, &nothing, sizeof nothing, -1);
    link_close(link);
}

/* Take an accepted link as the peer's, unless this rank has left or given the peer up, or
 * the peer has a link already. If this rank's own connection stays, the accepted link is
 * read on. */
static void link_adopt(struct peer *peer, struct link *link)
{
    int32_t rank = peer->rdv->group->roster.rank;
    if (peer->rdv->leave.state >= LEAVE_SENT && peer->life >= PEER_GIVING_UP) {
        link_farewell(peer, link);
        return;
    }
    bool ours_stays =
        peer->link.state == PEER_LINK_CONNECTING && peer->link.link && rank < peer->rank;
    if (peer->life >= PEER_GIVING_UP && !peer->left &&
        peer->rdv->leave.state == LEAVE_NONE) {
        link_give_up(peer, link);
        return;
    }
    if (peer->life != PEER_ALIVE || peer->link.state == PEER_LINK_UP || ours_stays) {
        (void)link_send(link, LINK_DUPLICATE, NULL, 0, -1);
        if (ours_stays)
            link_linger(peer, link);
        else
            link_close(link);
        return;
    }
    if (peer->link.link)
        link_close(peer->link.link);
    peer->link.link = link;
    peer->link.attempt = 0; /* none of this rank's ways has met the peer */
    link_events_set(link, &peer_link_events, peer);
    link_user_timeout_set(link, peer->rdv->set.peer_timeout_ns);
    hello_send(peer, link);
    peer_link_up(peer);
}

/* Count and log a connection that is not a peer's. */
static void refused_note(struct rendezvous *rdv, const struct link *link,
                         const char *what)
{
    char who[LINK_PEER_TEXT_BYTES];
    rdv->counters.links_refused++;
    link_peer_text(link, who);
    LOG_WARN_LIMITED(rdv->log, &rdv->limits.links, REFUSED_LOG_NS,
                     "refused a connection from %s: %s", who, what);
}

static void hello_message(void *arg, struct link *link, uint8_t type, const void *data,
                          size_t bytes, int fd)
{
    struct hello_link *hello = arg;
    struct rendezvous *rdv = hello->rdv;
    (void)fd; /* the link takes no descriptor before peer_link_up */
    if (hello->peer) {
        if (type == LINK_LEFT)
            peer_left_read(hello->peer, data, bytes);
        else if (type == LINK_LEAVE && hello->peer->link.state != PEER_LINK_UP)
            peer_left_note(hello->peer);
        return;
    }
    const char *wrong;
    struct peer *peer = hello_check(rdv, type, data, bytes, &wrong);
    hello_link_free(hello);
    if (peer) {
        link_adopt(peer, link);
        return;
    }
    refused_note(rdv, link, wrong);
    link_close(link);
}

static void hello_closed(void *arg, struct link *link, tryst_status status,
                         const char *text)
{
    struct hello_link *hello = arg;
    if (status == TRYST_E_PROTOCOL && !hello->peer)
        refused_note(hello->rdv, link, text);
    hello_link_free(hello);
    link_close(link);
}

static const struct link_events hello_events = {.message = hello_message,
                                                .closed = hello_closed};

void peer_link_accept(struct rendezvous *rdv, struct link *link)
{
    struct hello_link *hello = mem_zalloc(sizeof *hello);
    if (!hello) {
        link_close(link);
        return;
    }
    hello->rdv = rdv;
    hello->link = link;
    list_push_back(&rdv->hello_links, &hello->node);
    link_events_set(link, &hello_events, hello);
}

void peer_hello_links_close(struct rendezvous *rdv)
{
    struct list_node *node;
    while ((node = list_first(&rdv->hello_links)) != NULL) {
        struct hello_link *hello = container_of(node, struct hello_link, node);
        link_close(hello->link);
        hello_link_free(hello);
    }
}

void peer_hello_links_forked(struct rendezvous *rdv)
{
    list_for_each_safe (&rdv->hello_links, node, after)
        link_forked(container_of(node, struct hello_link, node)->link);
}
