/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer's link: who is there, and whether it still is.
 *
 * Idea: fabrics do not prove a death, so a socket of ours between the two ranks does. Its closing
 * means that the process is gone, unless LEAVE came before. HEARTBEAT carries how many frames
 * were sent and read, so a data path that swallows frames is noticed too. Silence of the
 * process itself proves nothing: a rank that computes is alive.
 * Invariant: nothing of a link is believed before its HELLO has shown cookie, rank and
 * incarnation. When both ranks connect at once, the lower rank's connection stays.
 * Callers: peer_need (connect), the listener (accept), housekeeping.
 */
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/text.h"
#include "engine.h"
#include "live_gather.h"
#include "peer.h"

/** A listener whose queue is full is tried again after this. */
#define RECONNECT_NS (20 * NS_PER_MS)
/** A rank that cannot be connected to is dead, unless we hear within this that it has left; counted
 *  from when we are linked with the one that would tell us. */
#define REFUSED_GRACE_NS (500 * NS_PER_MS)
/* A LEAVE that was sent before the path broke is here by then, even if TCP had to repeat it. */
#define LOST_GRACE_NS (1 * NS_PER_S)
/** Passes of the rail that read what a dead peer has left in its frames. */
enum { LAST_PASSES = 64 };

static const struct link_events peer_events;
static const struct link_events hello_events;

/** An accepted link whose HELLO has not come, or one that does not stay: it may still say LEAVE. */
struct hello_link {
    struct list_node node;
    struct rendezvous *rdv;
    struct link *link;
    struct peer *peer; /**< NULL before HELLO */
};

/* ---- hello -------------------------------------------------------------------------------- */

static void hello_send(struct peer *peer, struct link *link)
{
    const struct tryst_group *group = peer->rdv->group;
    struct link_hello hello = {.magic = HELLO_MAGIC,
                               .wire_version = WIRE_VERSION,
                               .rank = group->roster.rank,
                               .size = group->roster.size,
                               .incarnation =
                                   group->roster.entries[group->roster.rank].incarnation,
                               .nonce = peer->nonce};
    memcpy(hello.cookie, group->cookie, sizeof hello.cookie);
    (void)link_send(link, LINK_HELLO, &hello, sizeof hello, -1);
}

/** The peer that a HELLO proves to come from, or NULL with what is wrong with it. */
static struct peer *hello_check(struct rendezvous *rdv, uint8_t type, const void *data,
                                size_t bytes, const char **wrong_p)
{
    struct link_hello hello;
    const struct tryst_group *group = rdv->group;
    *wrong_p = "did not say HELLO first";
    if (type != LINK_HELLO || bytes != sizeof hello || !group)
        return NULL;
    memcpy(&hello, data, sizeof hello);
    if (hello.magic != HELLO_MAGIC)
        return NULL;
    *wrong_p = "speaks another wire version";
    if (hello.wire_version != WIRE_VERSION)
        return NULL;
    *wrong_p = "did not show this session's cookie";
    if (memcmp(hello.cookie, group->cookie, sizeof hello.cookie) != 0)
        return NULL;
    *wrong_p = "is no rank of this group";
    if (hello.rank < 0 || hello.rank >= group->roster.size ||
        hello.rank == group->roster.rank ||
        hello.incarnation != group->roster.entries[hello.rank].incarnation)
        return NULL;
    group->peers[hello.rank].peer_nonce = hello.nonce;
    return &group->peers[hello.rank];
}

/* ---- the end of a process ----------------------------------------------------------------- */

static void pidfd_ready(struct poller_source *source, uint32_t events)
{
    struct peer *peer = container_of(source, struct peer, pidfd);
    (void)events;
    poller_remove(peer->rdv->poller, source);
    peer->died_ns = rendezvous_now(peer->rdv);
    source->events = 0;
    peer->rdv->tick_ns = 0; /* housekeeping decides, soon */
}

/** Watch the peer's process, where the kernel lets us. */
static void pidfd_open_peer(struct peer *peer, int32_t pid)
{
    const struct roster *roster = &peer->rdv->group->roster;
    if (pid <= 0 || peer->pidfd.fd >= 0 ||
        identity_same_process(&roster->entries[roster->rank].host,
                              &roster->entries[peer->rank].host))
        return;
    peer->pidfd.fd = (int)syscall(SYS_pidfd_open, pid, 0);
    peer->pidfd.events = EPOLLIN;
    peer->pidfd.fn = pidfd_ready;
    if (peer->pidfd.fd >= 0 && poller_add(peer->rdv->poller, &peer->pidfd) != TRYST_OK)
        peer->pidfd.events = 0;
}

static void pidfd_close_peer(struct peer *peer)
{
    if (peer->pidfd.fd < 0)
        return;
    if (peer->pidfd.events)
        poller_remove(peer->rdv->poller, &peer->pidfd);
    close(peer->pidfd.fd);
    peer->pidfd.fd = -1;
}

/** Frames that were already received are read before a death is acted on. */
static void last_frames_read(struct peer *peer)
{
    for (int i = 0; i < LAST_PASSES && peer->ep && peer->life <= PEER_LEFT; i++)
        if (peer->ep->rail->ops->progress(peer->ep->rail) == 0)
            return;
}

static void link_gone(struct peer *peer, const char *text)
{
    char reason[TRANSPORT_TEXT_MAX];
    last_frames_read(peer);
    if (peer->left || peer->rdv->leaving) {
        peer->end_expected = true; /* not `left`, which we would pass on */
        peer_give_up(peer, TRYST_E_PEER, "has left the group");
        return;
    }
    snprintf(reason, sizeof reason, "died: %.120s", text);
    peer_give_up(peer, TRYST_E_PEER, reason);
}

/** No connection comes about. That is a death, unless the rank has left: of that we may hear in a
 *  moment from others, or in what it sent before. */
static void link_refused(struct peer *peer, const char *text)
{
    if (peer->left || peer->rdv->leaving) {
        link_gone(peer, text);
        return;
    }
    peer->refused_ns = rendezvous_now(peer->rdv);
    snprintf(peer->gone_text, sizeof peer->gone_text, "%s", text);
    if (peer->tree_parent)
        peer_tree_join(peer->rdv); /* its parent knows */
}

/** It lives, but one of the two processes lacks what a link needs. */
static void link_short(struct peer *peer, const char *text)
{
    char reason[TRANSPORT_TEXT_MAX];
    bool connecting = peer->link_state == PEER_LINK_CONNECTING;
    last_frames_read(peer);
    snprintf(reason, sizeof reason, "%s: %.130s",
             connecting ? "cannot be connected to" : "is no longer reached", text);
    peer_give_up(peer, TRYST_E_UNREACHABLE, reason);
}

/* ---- connecting --------------------------------------------------------------------------- */

/** Only now can we hear from our parent who has left. */
static void refused_again(struct rendezvous *rdv)
{
    for (int i = 0; i < rdv->group->roster.size; i++)
        if (rdv->group->peers[i].refused_ns)
            rdv->group->peers[i].refused_ns = rendezvous_now(rdv);
}

static void link_up(struct peer *peer)
{
    struct rendezvous *rdv = peer->rdv;
    peer->link_state = PEER_LINK_UP;
    peer->via_tcp = false;
    peer->refused_ns = 0;
    peer->connect_again = false;
    if (peer->tree_parent)
        refused_again(rdv);
    if (link_is_unix(peer->link))
        pidfd_open_peer(peer, link_peer_pid(peer->link));
    live_peer(rdv->live, peer);
    peer_clock_send(peer);
    abort_send_all(peer);
    peer_left_send_all(peer);
    if (rdv->told)
        peer_leave(peer);
    /* Not here: what the peer says next may be LEAVE, and opening a rail may take a second. */
    if (peer->ep_wanted)
        rdv->reap = true;
}

/** Where the peer's listener is reached from here: at the interface that shares a subnet with one
 *  of ours, else at the address that it announced. The port is one for all. */
static struct link_address link_address_of(const struct peer *peer)
{
    uint32_t mine = 0;
    uint32_t theirs = 0;
    const struct host_identity *host = &peer->rdv->group->roster.entries[peer->rank].host;
    struct link_address address = host->link;
    if (address.family && peer_rails(peer, &mine, &theirs)) {
        address.family = host->rails[theirs].family;
        memcpy(address.ip, host->rails[theirs].ip, sizeof address.ip);
    }
    return address;
}

static void connect_later(struct peer *peer)
{
    struct rendezvous *rdv = peer->rdv;
    peer->connect_again = true;
    if (rdv->tick_ns > rendezvous_now(rdv) + RECONNECT_NS)
        rdv->tick_ns = rendezvous_now(rdv) + RECONNECT_NS;
}

void peer_link_connect(struct peer *peer)
{
    struct rendezvous *rdv = peer->rdv;
    const struct roster *roster = &rdv->group->roster;
    const struct host_identity *theirs = &roster->entries[peer->rank].host;
    bool via_unix = !peer->via_tcp &&
                    identity_unix_reaches(&roster->entries[roster->rank].host, theirs);
    if (peer->link_state == PEER_LINK_NONE)
        peer->looked_ns = rendezvous_now(rdv);
    peer->link_state = PEER_LINK_CONNECTING;
    peer->duplicate = false;
    struct link_address address = link_address_of(peer);
    tryst_status status =
        link_connect(rdv->poller, rdv->log, &address, via_unix, rdv->set.peer_timeout_ns,
                     &peer_events, peer, &peer->link);
    peer->connect_again = false;
    peer->queue_full = status == TRYST_AGAIN;
    if (status == TRYST_OK)
        hello_send(peer, peer->link);
    else if (status == TRYST_AGAIN)
        connect_later(peer);
    else
        peer_give_up(peer, TRYST_E_UNREACHABLE,
                     "cannot be connected to: no socket or no memory for it here (is the "
                     "limit of open files, ulimit -n, reached?)");
}

static void hello_link_free(struct hello_link *hello)
{
    list_remove(&hello->node);
    mem_free(hello);
}

/** A link that does not stay: the peer closes it, but may leave before it reads that. */
static void link_linger(struct peer *peer, struct link *link)
{
    struct rendezvous *rdv = peer->rdv;
    struct hello_link *hello = mem_zalloc(sizeof *hello);
    list_for_each_safe (&rdv->hello_links, node, after) {
        struct hello_link *other = container_of(node, struct hello_link, node);
        if (other->peer != peer)
            continue;
        link_close(other->link); /* one for each peer is enough */
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

/** An accepted link has shown whose it is: take it, unless ours is to stay. */
static void link_adopt(struct peer *peer, struct link *link)
{
    int32_t rank = peer->rdv->group->roster.rank;
    bool ours_stays =
        peer->link_state == PEER_LINK_CONNECTING && peer->link && rank < peer->rank;
    if (peer->life != PEER_ALIVE || peer->link_state == PEER_LINK_UP || ours_stays) {
        (void)link_send(link, LINK_DUPLICATE, NULL, 0, -1);
        if (ours_stays)
            link_linger(peer, link);
        else
            link_close(link);
        return;
    }
    if (peer->link)
        link_close(peer->link);
    peer->link = link;
    link_events_set(link, &peer_events, peer);
    link_user_timeout_set(link, peer->rdv->set.peer_timeout_ns);
    hello_send(peer, link);
    link_up(peer);
}

/** Somebody came who is none of ours. */
static void stranger_note(struct rendezvous *rdv, const struct link *link,
                          const char *what)
{
    char who[LINK_PEER_TEXT_BYTES];
    rdv->counters.links_refused++;
    link_peer_text(link, who);
    LOG_WARN_LIMITED(rdv->log, &rdv->links_limit, STRANGERS_LOG_NS,
                     "refused a connection from %s: %s", who, what);
}

static void hello_message(void *arg, struct link *link, uint8_t type, const void *data,
                          size_t bytes, int fd)
{
    struct hello_link *hello = arg;
    struct rendezvous *rdv = hello->rdv;
    if (fd >= 0)
        close(fd);
    if (hello->peer) {
        if (type == LINK_LEFT)
            peer_left_read(hello->peer, data, bytes);
        else if (type == LINK_LEAVE && hello->peer->link_state != PEER_LINK_UP)
            peer_left_note(hello->peer, hello->peer);
        return;
    }
    const char *wrong;
    struct peer *peer = hello_check(rdv, type, data, bytes, &wrong);
    hello_link_free(hello);
    if (peer) {
        link_adopt(peer, link);
        return;
    }
    stranger_note(rdv, link, wrong);
    link_close(link);
}

static void hello_closed(void *arg, struct link *link, tryst_status status,
                         const char *text)
{
    struct hello_link *hello = arg;
    if (status == TRYST_E_PROTOCOL && !hello->peer)
        stranger_note(hello->rdv, link, text);
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

/* ---- messages ----------------------------------------------------------------------------- */

static void heartbeat_read(struct peer *peer, const void *data, size_t bytes)
{
    struct link_heartbeat beat;
    if (bytes != sizeof beat)
        return;
    memcpy(&beat, data, sizeof beat);
    peer->peer_sent = beat.sent;
    peer->peer_read = beat.read;
    peer->answered = true;
}

static void leave_read(struct peer *peer, const void *data, size_t bytes)
{
    struct link_heartbeat leave;
    if (bytes != sizeof leave)
        return;
    memcpy(&leave, data, sizeof leave);
    peer->leave_sent = leave.sent;
    peer->peer_read = leave.read;
    peer_left_note(peer, peer);
}

/** The peer lives, and has closed what led to us. */
static void gave_up_read(struct peer *peer, const char *text, size_t bytes)
{
    char reason[TRANSPORT_TEXT_MAX] = "gave up: ";
    const size_t head = strlen(reason);
    last_frames_read(peer);
    if (peer->left || peer->rdv->leaving)
        return;
    text_escape(text, bytes, reason + head, sizeof reason - head);
    peer_give_up(peer, TRYST_E_PEER, reason);
}

static void abort_read(struct peer *peer, const void *data, size_t bytes)
{
    struct link_abort abort;
    char text[256];
    if (bytes < sizeof abort)
        return;
    memcpy(&abort, data, sizeof abort);
    if (abort.text_bytes != bytes - sizeof abort || abort.status < 100 ||
        abort.origin_rank < 0 || abort.origin_rank >= peer->rdv->group->roster.size)
        return;
    text_escape((const char *)data + sizeof abort, abort.text_bytes, text, sizeof text);
    rendezvous_abort(peer->rdv, abort.step, abort.status, abort.origin_rank,
                     abort.time_ns, text, peer);
}

static void ep_link_read(struct peer *peer, uint8_t type, const void *data, size_t bytes,
                         int fd)
{
    struct link_ep head;
    const char *rest = (const char *)data + sizeof head;
    if (bytes < sizeof head) {
        if (fd >= 0)
            close(fd);
        return;
    }
    memcpy(&head, data, sizeof head);
    bytes -= sizeof head;
    if (type == LINK_EP_MESSAGE) {
        peer_ep_message(peer, head.candidate, rest, bytes, fd);
        return;
    }
    if (fd >= 0)
        close(fd);
    if (type == LINK_EP_REFUSED) {
        peer_ep_refused(peer, head.candidate, rest, bytes);
        return;
    }
    if (peer->ep_state == PEER_EP_NONE && !peer->ep_next) {
        peer->ep_wanted = true;
        peer_need(peer);
    }
    peer_heartbeat_answer(peer);
}

/** The first message on a connection of ours. */
static void connect_answer(struct peer *peer, uint8_t type, const void *data,
                           size_t bytes)
{
    /* The peer's own connection is on its way here and stays. Until then ours is the one that
     * LEAVE can go over, or the peer's end be seen by. */
    const char *wrong;
    if (type == LINK_DUPLICATE) {
        peer->duplicate = true;
        return;
    }
    if (hello_check(peer->rdv, type, data, bytes, &wrong) == peer) {
        link_up(peer);
        return;
    }
    peer_give_up(peer, TRYST_E_HANDSHAKE, "did not show this session's cookie");
}

static void peer_message(void *arg, struct link *link, uint8_t type, const void *data,
                         size_t bytes, int fd)
{
    struct peer *peer = arg;
    (void)link;
    if (peer->link_state != PEER_LINK_UP) {
        if (fd >= 0)
            close(fd);
        connect_answer(peer, type, data, bytes);
        return;
    }
    switch (type) {
    case LINK_EP_OPEN:
    case LINK_EP_MESSAGE:
    case LINK_EP_REFUSED: ep_link_read(peer, type, data, bytes, fd); return;
    case LINK_HEARTBEAT: heartbeat_read(peer, data, bytes); break;
    case LINK_LEAVE: leave_read(peer, data, bytes); break;
    case LINK_ABORT: abort_read(peer, data, bytes); break;
    case LINK_LEFT: peer_left_read(peer, data, bytes); break;
    case LINK_GAVE_UP: gave_up_read(peer, data, bytes); break;
    case LINK_CLOCK: peer_clock_read(peer, data, bytes); break;
    default: break; /* DOORBELL: the poller has run, which was its purpose */
    }
    if (fd >= 0)
        close(fd);
}

static void peer_closed(void *arg, struct link *link, tryst_status status,
                        const char *text)
{
    struct peer *peer = arg;
    const struct roster *roster = &peer->rdv->group->roster;
    bool short_of = status == TRYST_E_NOMEM || status == TRYST_E_SYSTEM;
    peer->link = NULL;
    bool connecting = peer->link_state == PEER_LINK_CONNECTING;
    bool unix_failed = connecting && link_is_unix(link) && !peer->via_tcp &&
                       roster->entries[peer->rank].host.link.family != 0;
    /* It listens, and has dropped us among others who did not speak: that proves no death. */
    bool dropped = connecting && status == TRYST_E_PEER && link_has_met(link) &&
                   !peer->duplicate && !peer->left;
    char reason[TRANSPORT_TEXT_MAX];
    snprintf(reason, sizeof reason, "%s", text);
    link_close(link);
    if (peer->life >= PEER_GIVING_UP)
        return;
    if (dropped) {
        connect_later(peer);
        return;
    }
    if (unix_failed) {
        peer->via_tcp = true;
        peer_link_connect(peer);
        return;
    }
    if (short_of && !peer->left)
        link_short(peer, reason);
    else if (connecting)
        link_refused(peer, reason);
    else
        link_gone(peer, reason);
}

static const struct link_events peer_events = {.message = peer_message,
                                               .closed = peer_closed};

void peer_link_close(struct peer *peer)
{
    if (peer->link)
        link_close(peer->link);
    peer->link = NULL;
    peer->link_state = PEER_LINK_NONE;
    pidfd_close_peer(peer);
}

/* ---- what we tell ------------------------------------------------------------------------- */

static void counts_send(struct peer *peer, uint8_t type)
{
    struct link_heartbeat beat = {.sent = peer->frames_sent, .read = peer->frames_read};
    if (!peer->link || peer->link_state != PEER_LINK_UP)
        return;
    peer->heartbeat_sent = beat.sent;
    peer->heartbeat_read = beat.read;
    (void)link_send(peer->link, type, &beat, sizeof beat, -1);
}

void peer_heartbeat(struct peer *peer)
{
    if (peer->frames_sent != peer->heartbeat_sent ||
        peer->frames_read != peer->heartbeat_read)
        counts_send(peer, LINK_HEARTBEAT);
}

void peer_heartbeat_answer(struct peer *peer)
{
    counts_send(peer, LINK_HEARTBEAT);
}

void peer_gave_up_send(struct peer *peer)
{
    if (peer->link && peer->link_state == PEER_LINK_UP && !peer->left &&
        !peer->rdv->leaving)
        (void)link_send(peer->link, LINK_GAVE_UP, peer->gone_text,
                        strlen(peer->gone_text), -1);
}

/** A neighbour in the control tree that has not looked since it opened its group hears it all the same,
 *  and through it those behind it: the kernel there keeps what we say. */
void peer_leave(struct peer *peer)
{
    static const struct link_heartbeat nothing;
    const struct tryst_group *group = peer->rdv->group;
    if (peer->link_state == PEER_LINK_NONE && peer->life == PEER_ALIVE &&
        peer_tree_neighbours(group, group->roster.rank, peer->rank))
        peer_link_connect(peer);
    if (peer->link && peer->link_state == PEER_LINK_CONNECTING) {
        peer_left_send_all(peer);
        (void)link_send(peer->link, LINK_LEAVE, &nothing, sizeof nothing, -1);
    } else {
        counts_send(peer, LINK_LEAVE);
    }
}

bool peer_is_told(const struct peer *peer)
{
    return peer->link_state != PEER_LINK_CONNECTING || !peer->link ||
           link_has_met(peer->link);
}

/* ---- housekeeping ------------------------------------------------------------------------- */

/** How long frames may be missing: the heartbeat that tells of them comes up to a tick late, and so
 *  does the look that finds it; the peer is to be named within TRYST_PEER_TIMEOUT. */
static uint64_t behind_limit_ns(uint64_t timeout_ns)
{
    return timeout_ns > 4 * TICK_NS ? timeout_ns - 2 * TICK_NS : timeout_ns / 2;
}

/** `passed_ns` more have passed in which both ranks looked. */
static void data_path_check(struct peer *peer, uint64_t passed_ns)
{
    bool behind = peer->frames_read < peer->peer_sent;
    bool still = behind && peer->behind && peer->frames_read == peer->behind_read;
    peer->behind = behind;
    peer->behind_read = peer->frames_read;
    peer->behind_ns = still ? peer->behind_ns + passed_ns : 0;
    if (still && peer->behind_ns >= behind_limit_ns(peer->rdv->set.peer_timeout_ns))
        peer_give_up(peer, TRYST_E_PEER,
                     "has sent frames that do not arrive: its data path is dead");
}

/** Its kernel has answered: the connection stands, or waits for a place in the listener's queue. */
static bool connect_is_answered(const struct peer *peer)
{
    return peer->link ? link_has_met(peer->link) : peer->queue_full;
}

/** No sign of the peer for TRYST_CONNECT_TIMEOUT. A connection that stands says that somebody will
 *  read it, or else breaks (keep-alive, TRYST_PEER_TIMEOUT), however long the peer computes. */
static bool connect_is_late(struct peer *peer, uint64_t passed_ns)
{
    if (peer->link_state != PEER_LINK_CONNECTING)
        return false;
    if (!connect_is_answered(peer))
        peer->unanswered_ns += passed_ns;
    return peer->unanswered_ns >= peer->rdv->set.connect_timeout_ns;
}

/** So long have we looked since the last tick: our own absence is nobody else's silence. */
static uint64_t time_looked(struct peer *peer, uint64_t now_ns)
{
    uint64_t passed_ns = clock_since_ns(peer->looked_ns, now_ns);
    peer->looked_ns = now_ns;
    return passed_ns < TICK_NS ? passed_ns : TICK_NS;
}

/** What waits for the peer to look: a peer that computes, or is stopped, is not late, and gets no
 *  second question before it has answered the first. */
static void waiting_tick(struct peer *peer, uint64_t passed_ns)
{
    uint64_t both_ns = peer->answered ? passed_ns : 0;
    data_path_check(peer, both_ns);
    peer_ep_tick(peer, both_ns);
    if (peer->answered && !peer->ep_next &&
        (peer->behind || peer->ep_state == PEER_EP_OPENING))
        peer_ep_ask(peer);
}

/** Nothing of what our parent in the control tree knows can have come: it has not answered yet. (It may
 *  compute; a parent that has died is refused as well, and then another one is.) */
static bool parent_is_silent(const struct tryst_group *group)
{
    int parent = peer_tree_parent(group, group->roster.rank);
    return parent >= 0 && group->peers[parent].link_state == PEER_LINK_CONNECTING;
}

void peer_tick(struct peer *peer, uint64_t now_ns)
{
    if (peer->life >= PEER_GIVING_UP)
        return;
    peer_wants_resume(peer);
    consumer_tick(peer);
    producer_ask(peer);
    uint64_t passed_ns = time_looked(peer, now_ns);
    bool late = connect_is_late(peer, passed_ns);
    if (peer->refused_ns && !peer->left) {
        if (clock_since_ns(peer->refused_ns, now_ns) >= REFUSED_GRACE_NS &&
            (late || !parent_is_silent(peer->rdv->group))) {
            char reason[TRANSPORT_TEXT_MAX];
            memcpy(reason, peer->gone_text, sizeof reason);
            link_gone(peer, reason);
        }
        return;
    }
    if (late) {
        peer_give_up(peer, TRYST_E_PEER,
                     "could not be connected to within TRYST_CONNECT_TIMEOUT");
        return;
    }
    if (peer->connect_again && peer->link_state == PEER_LINK_CONNECTING && !peer->left)
        peer_link_connect(peer);
    if (peer->unreached_ns &&
        clock_since_ns(peer->unreached_ns, now_ns) >= PEER_DEATH_GRACE_NS) {
        peer_ep_unreached(peer);
        return;
    }
    if (peer->left && peer->frames_read >= peer->leave_sent) {
        counts_send(peer, LINK_HEARTBEAT);
        peer_give_up(peer, TRYST_E_PEER, "has left the group");
        return;
    }
    if (peer->lost_ns &&
        (peer->left || clock_since_ns(peer->lost_ns, now_ns) > LOST_GRACE_NS)) {
        peer_give_up(peer, TRYST_E_PEER,
                     peer->left ? "has left the group" : peer->mechanism);
        return;
    }
    if (peer->died_ns && clock_since_ns(peer->died_ns, now_ns) > PEER_DEATH_GRACE_NS) {
        link_gone(peer, "its process has ended");
        return;
    }
    peer_heartbeat(peer);
    peer_clock_send(peer);
    waiting_tick(peer, passed_ns);
}
