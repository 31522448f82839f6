/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large packets that are lost between two ranks.
 *
 * Idea: a network that drops packets of the hosts' MTU without a report stops the
 * fabric's connections, but not the link with its small packets. Only the sender's kernel
 * has the proof (core/net/tcp_path.h), so the sender reports the loss over the
 * link.
 *
 * Invariants: the descriptors of the process are searched only while nothing reaches the
 * peer, for a few peers in a tick. A loss is reported once the same packet was repeated
 * between two searches: after an outage the two connections recover at different times.
 * A peer is given up for it only while each search confirms it and bulk is in flight,
 * which no cancel can withdraw.
 */
#include "loss.h"

#include <stdio.h>
#include <string.h>

#include "core/net/tcp_path.h"
#include "core/text/text.h"
#include "link.h"
#include "messages.h"
#include "rendezvous/op/engine.h"

/* Time without progress until a search, and between searches: three repetitions of a lost
 * packet take 1.4 s and a probe of the tail. */
#define SEARCH_NS (1500 * NS_PER_MS)
/* Searches of one tick, each of which reads the state of all descriptors; doublings of
 * the time between a peer's searches that find nothing; and small packets sent in one
 * wait: a rank that computes does not read them. */
enum { SEARCHES_MAX = 8, DOUBLINGS_MAX = 5, PROBES_MAX = 120 };

/* True if this rank has sent what the peer has not received, as far as it is known. */
static bool is_waiting(const struct peer *peer)
{
    return peer->lane.in_flight_bytes || peer->frames.sent > peer->liveness.peer_read ||
           peer->endpoint.state == PEER_EP_OPENING;
}

/* Return a number that changes when bulk, or without bulk a frame, reaches the peer. A
 * dead path for bulk may go on to carry frames. */
static uint64_t mark_of(const struct peer *peer)
{
    const struct sched_lane *lane = &peer->lane;
    return lane->in_flight_bytes ? lane->started_bytes - lane->in_flight_bytes
                                 : peer->liveness.peer_read;
}

static void report(struct peer *peer, const struct tcp_loss *loss)
{
    struct link_loss *to = &peer->loss.to;
    char text[PEER_LOSS_TEXT_MAX];
    memset(to, 0, sizeof *to);
    to->mtu = loss->mtu;
    peer->loss.since_ns = rendezvous_now(peer->rdv);
    to->interface_mtu = loss->interface_mtu;
    memcpy(to->interface, loss->interface, sizeof to->interface);
    if (loss->mtu && peer_loss_text(peer, "", text, sizeof text))
        LOG_WARN(peer->rdv->log, "%s", text);
    (void)link_send(peer->link.link, LINK_LOSS, to, sizeof *to, -1);
}

/* Restart the time of waiting: bytes have moved, or none are to move. */
static void moved(struct peer *peer, uint64_t now_ns, uint64_t mark)
{
    static const struct tcp_loss none;
    peer->loss.mark = mark;
    peer->loss.search_ns = now_ns + SEARCH_NS;
    peer->loss.probes = peer->loss.vain = peer->loss.repeats = 0;
    if (peer->loss.to.mtu)
        report(peer, &none);
}

/* Count a search of this tick; false: there were SEARCHES_MAX. */
static bool search_is_allowed(const struct peer *peer)
{
    struct rendezvous *rdv = peer->rdv;
    if (rdv->loss.tick_ns != rdv->times.tick_ns)
        rdv->loss.searches = 0;
    rdv->loss.tick_ns = rdv->times.tick_ns;
    return rdv->loss.searches++ < SEARCHES_MAX;
}

/* Search. Report a loss once its packet was repeated since the last search, and the end
 * of a reported loss. */
static void search(struct peer *peer, uint64_t now_ns)
{
    struct tcp_loss loss = {.mtu = 0};
    bool found = link_loss_find(peer->link.link, &loss);
    uint32_t before = peer->loss.repeats;
    peer->loss.repeats = found ? loss.retransmits : 0;
    if (found && before && loss.retransmits > before && !peer->loss.to.mtu)
        report(peer, &loss);
    else if (!found && peer->loss.to.mtu)
        report(peer, &loss);
    peer->loss.vain = found ? 0 : peer->loss.vain + 1;
    uint32_t doublings =
        peer->loss.vain < DOUBLINGS_MAX ? peer->loss.vain : DOUBLINGS_MAX;
    peer->loss.search_ns = now_ns + (SEARCH_NS << doublings);
}

void peer_loss_tick(struct peer *peer, uint64_t now_ns)
{
    uint64_t mark = mark_of(peer);
    if (peer->link.state != PEER_LINK_UP || link_is_unix(peer->link.link))
        return;
    if (!is_waiting(peer) || mark != peer->loss.mark || !peer->loss.search_ns) {
        moved(peer, now_ns, mark);
        return;
    }
    if (peer->loss.probes == PROBES_MAX && !peer->loss.to.mtu)
        return;
    if (now_ns >= peer->loss.search_ns && search_is_allowed(peer))
        search(peer, now_ns);
    /* a small packet, for the search at a later tick */
    peer->loss.probes++;
    peer_heartbeat_answer(peer);
    if (peer->loss.to.mtu &&
        (peer->lane.in_flight_bytes || peer->endpoint.state == PEER_EP_OPENING) &&
        clock_since_ns(peer->loss.since_ns, now_ns) >= peer->rdv->set.peer_timeout_ns)
        peer_give_up(peer, TRYST_E_PEER, "was lost: no large packets reach it");
}

void peer_loss_read(struct peer *peer, const void *data, size_t bytes)
{
    struct link_loss loss;
    if (bytes != sizeof loss)
        return;
    memcpy(&loss, data, sizeof loss);
    peer->loss.from = loss;
}

/* Append the sentence about the packets from rank `from` to rank `to`. */
static void loss_append(const struct link_loss *loss, int from, int to, char *text,
                        size_t capacity)
{
    char name[4 * sizeof loss->interface + 1];
    text_escape(loss->interface, strnlen(loss->interface, sizeof loss->interface), name,
                sizeof name);
    text_append(text, capacity, "packets of %u bytes from rank %d to rank %d", loss->mtu,
                from, to);
    if (name[0])
        text_append(text, capacity, " (MTU of its %s: %u)", name, loss->interface_mtu);
}

bool peer_loss_text(const struct peer *peer, const char *before, char *text,
                    size_t capacity)
{
    const struct link_loss *to = &peer->loss.to, *from = &peer->loss.from;
    int mine = peer->rdv->group->roster.rank;
    text[0] = '\0';
    if (!to->mtu && !from->mtu)
        return false;
    text_append(text, capacity, "%s", before);
    if (to->mtu)
        loss_append(to, mine, peer->rank, text, capacity);
    if (to->mtu && from->mtu)
        text_append(text, capacity, " and ");
    if (from->mtu)
        loss_append(from, peer->rank, mine, text, capacity);
    text_append(text, capacity,
                " are lost on the way, those of %u arrive: give the interfaces the MTU "
                "of the network between (tryst-info --check HOST)",
                TCP_PATH_SAFE_BYTES);
    return true;
}
