/* SPDX-License-Identifier: Apache-2.0 */
/* A rank of a conformance test: its context, links, endpoints and waiting (harness.h). */
#include "harness.h"
#include "sabotage.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/memory/alloc.h"
#include "core/os/clock.h"
#include "transports/rail_start.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
const unsigned conf_patience = 5;
#else
const unsigned conf_patience = 1;
#endif

_Atomic unsigned conf_wait_s = 20, conf_wake_s = 5;

/* Types of messages on the harness's links. */
enum { MESSAGE_HELLO = 1, MESSAGE_CONNECT = 2, MESSAGE_DOORBELL = 3, MESSAGE_LEAVE = 4 };

/* An accepted link before its HELLO. */
struct conf_guest {
    struct conf_ctx *ctx;
    int pidfd;
};

/* A connect message for an endpoint that is not open yet. */
struct conf_early {
    struct conf_early *next;
    size_t bytes;
    int fd;
    uint8_t data[];
};

/* ---- failing ---- */

void conf_where(struct conf_ctx *ctx, const char *file, int line, const char *what)
{
    const char *name = strrchr(file, '/');
    (void)snprintf(ctx->shared->ranks[ctx->rank].where,
                   sizeof ctx->shared->ranks[ctx->rank].where, "%s:%d: %s",
                   name ? name + 1 : file, line, what);
}

void conf_fail(struct conf_ctx *ctx, const char *file, int line, const char *fmt, ...)
{
    struct conf_rank *mine = &ctx->shared->ranks[ctx->rank];
    const char *name = strrchr(file, '/');
    int length = snprintf(mine->failure, sizeof mine->failure,
                          "%s:%d: ", name ? name + 1 : file, line);
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(mine->failure + length, sizeof mine->failure - (size_t)length, fmt,
                    args);
    va_end(args);
    atomic_store(&ctx->shared->failed, 1);
    longjmp(ctx->escape, 1);
}

void conf_check_others(struct conf_ctx *ctx)
{
    if (atomic_load(&ctx->shared->failed))
        longjmp(ctx->escape, 2);
}

/* ---- the transport's events ---- */

static struct conf_peer *peer_of(struct endpoint *ep)
{
    struct conf_peer *peer = ep->arg;
    struct conf_ctx *ctx = peer->ctx;
    if (ctx->inside)
        CONF_FAIL(ctx, "an event came from inside the call that started it");
    if (peer->ep != ep || peer->closed)
        CONF_FAIL(ctx, "an event for an endpoint that is not open");
    return peer;
}

static void on_frame(struct endpoint *ep, const void *data, size_t bytes)
{
    struct conf_peer *peer = peer_of(ep);
    struct conf_ctx *ctx = peer->ctx;
    CONF_CHECK(ctx, (uintptr_t)data % 8 == 0);
    CONF_CHECK(ctx, bytes >= 1 && bytes <= ctx->rail->frame_max);
    CONF_CHECK(ctx, !peer->closing);
    if (peer->on_frame)
        peer->on_frame(peer, data, bytes);
    peer->frames_read++;
    atomic_store(&ctx->shared->ranks[ctx->rank].frames_read[peer->rank],
                 peer->frames_read);
}

static void on_ready(struct endpoint *ep, tryst_status status, const char *text)
{
    struct conf_peer *peer = peer_of(ep);
    CONF_CHECK(peer->ctx, !peer->ready_called && !peer->closing);
    CONF_CHECK(peer->ctx, status == TRYST_OK || status == TRYST_E_UNREACHABLE);
    CONF_CHECK(peer->ctx, text && text[0]);
    peer->ready_called = true;
    peer->ready = status == TRYST_OK;
    peer->ready_status = status;
    (void)snprintf(peer->text, sizeof peer->text, "%s", text);
}

static void on_mech_dropped(struct endpoint *ep)
{
    (void)ep;
}

static void on_failed(struct endpoint *ep, tryst_status status, const char *text)
{
    struct conf_peer *peer = peer_of(ep);
    CONF_CHECK(peer->ctx, !peer->failed);
    CONF_CHECK(peer->ctx, text && text[0]);
    if (!peer->may_fail && !peer->left && !peer->link_closed)
        CONF_FAIL(peer->ctx, "the endpoint to rank %d failed: %d, %s", peer->rank, status,
                  text);
    peer->failed = true;
    peer->failed_status = status;
    (void)snprintf(peer->text, sizeof peer->text, "%s", text);
}

static void on_unexpected(struct endpoint *ep, uint64_t tag, size_t bytes)
{
    struct conf_peer *peer = peer_of(ep);
    peer->unexpected_count++;
    peer->unexpected_tag = tag;
    peer->unexpected_bytes = bytes;
}

static void on_ep_closed(struct endpoint *ep)
{
    struct conf_peer *peer = peer_of(ep);
    CONF_CHECK(peer->ctx, peer->closing);
    /* `closed` comes last; copies that bounce buffers still wait for do not belong to
     * the transport. */
    CONF_EQUAL(peer->ctx, peer->bulk_live, peer->lane.busy);
    peer->closed = true;
    peer->ep = NULL;
}

/* Damage the message: flip one bit, randomize one byte, cut the end off, or drop the
 * descriptor. */
static tryst_status mutated_send(struct conf_peer *peer, const void *data, size_t bytes,
                                 int fd)
{
    struct random *random = &peer->ctx->random;
    uint8_t copy[4096];
    memcpy(copy, data, bytes);
    switch (bytes ? random_range(random, 5) : 4) {
    case 0:
        copy[random_range(random, bytes)] ^= (uint8_t)(1u << random_range(random, 8));
        break;
    case 1: copy[random_range(random, bytes)] = (uint8_t)random_u64(random); break;
    case 2: bytes = random_range(random, bytes); break;
    case 3: fd = -1; break;
    default: break;
    }
    return link_send(peer->link, MESSAGE_CONNECT, copy, bytes, fd);
}

static tryst_status connect_send(struct endpoint *ep, const void *data, size_t bytes,
                                 int fd)
{
    struct conf_peer *peer = ep->arg; /* may be called from inside ep_open */
    CONF_CHECK(peer->ctx, bytes <= 4096);
    CONF_CHECK(peer->ctx, peer->rank != peer->ctx->rank);
    if (!peer->link || peer->link_closed)
        return TRYST_E_PEER;
    if (peer->ctx->mutate)
        return mutated_send(peer, data, bytes, fd);
    return link_send(peer->link, MESSAGE_CONNECT, data, bytes, fd);
}

static void doorbell(struct endpoint *ep)
{
    struct conf_peer *peer = ep->arg;
    if (peer->rank == peer->ctx->rank)
        poller_wake(&peer->ctx->poller);
    else if (peer->link && !peer->link_closed)
        (void)link_send(peer->link, MESSAGE_DOORBELL, NULL, 0, -1);
}

static const struct rail_events events = {
    .frame = on_frame,
    .ready = on_ready,
    .failed = on_failed,
    .mech_dropped = on_mech_dropped,
    .unexpected = on_unexpected,
    .closed = on_ep_closed,
    .connect_send = connect_send,
    .doorbell = doorbell,
};

/* ---- links ---- */

static void ep_message(struct conf_peer *peer, const void *data, size_t bytes, int fd)
{
    peer->ctx->inside++;
    peer->ctx->ops->ep_message(peer->ep, data, bytes, fd);
    peer->ctx->inside--;
}

static void early_keep(struct conf_peer *peer, const void *data, size_t bytes, int fd)
{
    struct conf_early *early = malloc(sizeof *early + bytes);
    CONF_CHECK(peer->ctx, early != NULL);
    *early = (struct conf_early){.bytes = bytes, .fd = fd};
    memcpy(early->data, data, bytes);
    *peer->early_end = early;
    peer->early_end = &early->next;
}

static void early_deliver(struct conf_peer *peer)
{
    while (peer->early) {
        struct conf_early *early = peer->early;
        peer->early = early->next;
        if (peer->ep)
            ep_message(peer, early->data, early->bytes, early->fd);
        else if (early->fd >= 0)
            close(early->fd);
        free(early);
    }
    peer->early_end = &peer->early;
}

static void link_message(void *arg, struct link *link, uint8_t type, const void *data,
                         size_t bytes, int fd)
{
    struct conf_peer *peer = arg;
    if (type == MESSAGE_CONNECT && peer->ep && !peer->closing)
        ep_message(peer, data, bytes, fd);
    else if (type == MESSAGE_CONNECT && !peer->closing)
        early_keep(peer, data, bytes, fd);
    else if (fd >= 0)
        close(fd);
    peer->greeted |= type == MESSAGE_HELLO;
    peer->left |= type == MESSAGE_LEAVE;
}

static void link_closed(void *arg, struct link *link, tryst_status status,
                        const char *text)
{
    struct conf_peer *peer = arg;
    peer->link_closed = true;
    peer->link = NULL;
    link_close(link);
}

static const struct link_events peer_events = {link_message, link_closed};

static int pidfd_of(struct conf_ctx *ctx, const struct link *link)
{
    int32_t pid = link_peer_pid(link);
    return ctx->threads || pid <= 0 ? -1 : (int)syscall(SYS_pidfd_open, pid, 0);
}

static void guest_message(void *arg, struct link *link, uint8_t type, const void *data,
                          size_t bytes, int fd)
{
    struct conf_guest *guest = arg;
    struct conf_ctx *ctx = guest->ctx;
    int rank;
    CONF_CHECK(ctx, type == MESSAGE_HELLO && bytes == sizeof rank && fd < 0);
    memcpy(&rank, data, sizeof rank);
    CONF_CHECK(ctx, rank >= 0 && rank < ctx->rank && !ctx->peers[rank].link);
    ctx->peers[rank].link = link;
    ctx->peers[rank].pidfd = guest->pidfd;
    link_events_set(link, &peer_events, &ctx->peers[rank]);
    link_fds_take(link);
    CONF_EQUAL(ctx, link_send(link, MESSAGE_HELLO, &ctx->rank, sizeof ctx->rank, -1),
               TRYST_OK);
    free(guest);
}

static void guest_closed(void *arg, struct link *link, tryst_status status,
                         const char *text)
{
    struct conf_guest *guest = arg;
    if (guest->pidfd >= 0)
        close(guest->pidfd);
    free(guest);
    link_close(link);
}

static const struct link_events guest_events = {guest_message, guest_closed};

static void link_accepted(void *arg, struct link *link)
{
    struct conf_guest *guest = malloc(sizeof *guest);
    guest->ctx = arg;
    guest->pidfd = pidfd_of(arg, link);
    link_events_set(link, &guest_events, guest);
}

/* Connect the link and wait for HELLO from the peer, which takes no descriptor before. */
static void link_call(struct conf_peer *peer)
{
    struct conf_ctx *ctx = peer->ctx;
    CONF_EQUAL(ctx,
               link_connect(&ctx->poller, &ctx->log,
                            &ctx->shared->ranks[peer->rank].address, NULL, true,
                            5 * NS_PER_S, &peer_events, peer, &peer->link),
               TRYST_OK);
    peer->pidfd = pidfd_of(ctx, peer->link);
    link_fds_take(peer->link);
    CONF_EQUAL(ctx,
               link_send(peer->link, MESSAGE_HELLO, &ctx->rank, sizeof ctx->rank, -1),
               TRYST_OK);
    CONF_WAIT(ctx, peer->greeted || peer->link_closed);
}

struct conf_peer *conf_link(struct conf_ctx *ctx, int rank)
{
    struct conf_peer *peer = &ctx->peers[rank];
    CONF_WAIT(ctx, atomic_load(&ctx->shared->ranks[rank].published) >= ctx->opens);
    if (ctx->rank < rank)
        link_call(peer);
    else if (ctx->rank > rank)
        CONF_WAIT(ctx, peer->link != NULL);
    return peer;
}

/* ---- endpoints ---- */

void conf_ep_open(struct conf_peer *peer)
{
    struct conf_ctx *ctx = peer->ctx;
    const struct conf_shared *shared = ctx->shared;
    struct ep_params params = {
        .arg = peer,
        .peer_rank = peer->rank,
        .local_rank = ctx->rank,
        .initiator = ctx->rank < peer->rank,
        .loopback = ctx->rank == peer->rank,
        .same_process = ctx->threads || ctx->rank == peer->rank,
        .same_host = true,
        .peer_pid = shared->pids[peer->rank],
        .peer_pidfd = peer->pidfd,
        .cookie = 0x5ec7e7,
        .nonce = shared->ranks[ctx->rank].nonce,
        .peer_nonce = shared->ranks[peer->rank].nonce,
    };
    ctx->inside++;
    tryst_status status = ctx->ops->ep_open(ctx->rail, &params, &peer->ep);
    ctx->inside--;
    CONF_EQUAL(ctx, status, TRYST_OK);
    CONF_CHECK(ctx, peer->ep->arg == peer && peer->ep->rail == ctx->rail);
    early_deliver(peer);
}

struct conf_peer *conf_connect(struct conf_ctx *ctx, int rank)
{
    struct conf_peer *peer = conf_link(ctx, rank);
    conf_ep_open(peer);
    CONF_WAIT(ctx, peer->ready_called);
    if (!peer->ready)
        CONF_FAIL(ctx, "cannot reach rank %d: %s", rank, peer->text);
    return peer;
}

void conf_ep_close(struct conf_peer *peer)
{
    struct conf_ctx *ctx = peer->ctx;
    CONF_CHECK(ctx, peer->ep && !peer->closing);
    peer->closing = true;
    peer->may_fail = true;
    if (peer->link)
        (void)link_send(peer->link, MESSAGE_LEAVE, NULL, 0, -1);
    bounce_lane_close(&peer->lane);
    ctx->inside++;
    ctx->ops->ep_close(peer->ep);
    ctx->inside--;
    CONF_CHECK(ctx, !peer->closed);
}

bool conf_gone(const struct conf_peer *peer)
{
    return peer->closed && peer->lane.busy == 0;
}

void conf_closed(struct conf_peer *peer)
{
    CONF_WAIT_FOR(peer->ctx, 2 * conf_patience, conf_gone(peer));
    CONF_EQUAL(peer->ctx, peer->bulk_live, 0);
}

static void peer_close(struct conf_peer *peer)
{
    if (peer->ep && !peer->closing)
        conf_ep_close(peer);
    if (peer->ep)
        conf_closed(peer);
    early_deliver(peer);
    if (peer->link)
        link_close(peer->link);
    if (peer->pidfd >= 0)
        close(peer->pidfd);
    peer->link = NULL;
    peer->pidfd = -1;
}

/* ---- the context ---- */

static void peers_init(struct conf_ctx *ctx)
{
    for (int i = 0; i < ctx->size; i++) {
        ctx->peers[i] = (struct conf_peer){.ctx = ctx, .rank = i, .pidfd = -1};
        ctx->peers[i].early_end = &ctx->peers[i].early;
        bounce_lane_init(&ctx->peers[i].lane);
        atomic_store(&ctx->shared->ranks[ctx->rank].frames_read[i], 0);
    }
}

/* ---- bounce buffers -------------------------------------------------------------- */

static bool bounce_wanted(void *arg, const struct bulk *bulk)
{
    return true;
}

static void bounce_notified(void *arg)
{
} /* a sender that waits retries */

static const struct bounce_events bounce_events = {bounce_wanted, bounce_notified,
                                                   bounce_notified};

static void memory_start(struct conf_ctx *ctx)
{
    CONF_EQUAL(ctx, memory_cache_open(memory_ops_load, &ctx->host, &ctx->regions),
               TRYST_OK);
    place_devices_open(ctx);
    bounce_init(&ctx->bounce, &bounce_events, ctx, &ctx->host, ctx->regions,
                config_bytes(ctx->config, CONFIG_STAGE_BYTES));
}

static void memory_end(struct conf_ctx *ctx)
{
    bounce_end(&ctx->bounce);
    place_devices_close(ctx);
    memory_rail_forget(ctx->regions, ctx->rail);
    CONF_EQUAL(ctx, memory_cache_close(ctx->regions), 0);
}

void conf_open(struct conf_ctx *ctx)
{
    struct conf_rank *mine = &ctx->shared->ranks[ctx->rank];
    struct rail_params params = {.host = &ctx->host,
                                 .events = &events,
                                 .poller = &ctx->poller,
                                 .own_shm_allowed =
                                     !*config_str(ctx->config, CONFIG_HOST_ID)};
    const struct sockaddr_in loopback = {.sin_family = AF_INET,
                                         .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char text[TRANSPORT_TEXT_MAX];
    peers_init(ctx);
    params.interface_name = "lo";
    params.interface_address = (const struct sockaddr *)&loopback;
    const struct transport_ops *ops = conf_ops(ctx->subject, text);
    if (!ops)
        CONF_FAIL(ctx, "%s: %s", ctx->subject->transport, text);
    CONF_EQUAL(ctx, poller_open(&ctx->poller), TRYST_OK);
    ops = sabotage_ops(ops, ctx->subject->sabotage);
    CONF_EQUAL(ctx, rail_start(ops, &params, &ctx->rail), TRYST_OK);
    ctx->ops = ctx->rail->ops;
    CONF_CHECK(ctx, ctx->rail->events == &events);
    CONF_CHECK(ctx, ctx->rail->tag_bits >= 48 &&
                        ctx->rail->frame_max >= TRANSPORT_FRAME_BYTES);
    CONF_CHECK(ctx, ctx->rail->posted_max >= 64 && ctx->rail->bulk_max > 0);
    CONF_CHECK(ctx, !ctx->rail->slice_bytes || ctx->rail->slice_bytes >= 64 << 10);
    memory_start(ctx);
    CONF_EQUAL(ctx,
               link_listen(&ctx->poller, &ctx->log, NULL, (unsigned)ctx->size,
                           link_accepted, ctx, &ctx->listener, &mine->address),
               TRYST_OK);
    CONF_EQUAL(ctx, ctx->host.random_secret(&mine->nonce, sizeof mine->nonce), TRYST_OK);
    atomic_store(&mine->published, ++ctx->opens);
}

void conf_close(struct conf_ctx *ctx)
{
    for (int i = 0; i < ctx->size; i++)
        ctx->peers[i].may_fail = true;
    conf_barrier(ctx);
    conf_close_alone(ctx);
}

void conf_close_alone(struct conf_ctx *ctx)
{
    for (int i = 0; i < ctx->size; i++)
        peer_close(&ctx->peers[i]);
    memory_end(ctx);
    ctx->ops->rail_close(ctx->rail);
    ctx->rail = NULL;
    link_listener_close(ctx->listener);
    ctx->listener = NULL;
    poller_close(&ctx->poller);
}

struct conf_peer *conf_pair(struct conf_ctx *ctx)
{
    conf_open(ctx);
    return conf_connect(ctx, 1 - ctx->rank);
}

/* ---- progress ---- */

/* After this many idle steps a rank sleeps, at most for SLEEP_NS, because cores are few.
 * A lost wake-up only costs time here; sleeping.c tests for lost wake-ups. */
enum { SPINS = 200, POLL_EVERY = 16 };
#define SLEEP_NS (2 * NS_PER_MS)

static int rails_progress(struct conf_ctx *ctx)
{
    struct rail *bounce = &ctx->bounce.rail;
    return ctx->ops->progress(ctx->rail) + bounce->ops->progress(bounce);
}

/* Arm the rails. TRYST_AGAIN: do not sleep. Else sleep at most `*nap_ns_p`: `most_ns`
 * where an event wakes the rank. */
static tryst_status rails_arm(struct conf_ctx *ctx, uint64_t most_ns, uint64_t *nap_ns_p)
{
    struct rail *rails[2] = {ctx->rail, &ctx->bounce.rail};
    tryst_status both = TRYST_OK;
    *nap_ns_p = most_ns;
    for (int i = 0; i < 2; i++) {
        tryst_status status = rails[i]->ops->arm(rails[i]);
        if (status == TRYST_AGAIN)
            return TRYST_AGAIN;
        CONF_CHECK(ctx, status == TRYST_OK || status == TRYST_E_UNSUPPORTED);
        uint64_t nap_ns = rails[i]->copies_busy ? COPY_NAP_NS : NS_PER_MS;
        if (status == TRYST_OK)
            continue;
        both = status;
        *nap_ns_p = nap_ns < *nap_ns_p ? nap_ns : *nap_ns_p;
    }
    return both;
}

void conf_step(struct conf_ctx *ctx)
{
    uint64_t nap_ns = SLEEP_NS;
    int events_count = ctx->rail ? rails_progress(ctx) : 0;
    if (events_count == 0 || ctx->idle_count % POLL_EVERY == 0)
        events_count += poller_run(&ctx->poller, 0);
    ctx->idle_count = events_count ? 0 : ctx->idle_count + 1;
    if (ctx->idle_count <= SPINS)
        return;
    if (ctx->rail && rails_arm(ctx, SLEEP_NS, &nap_ns) == TRYST_AGAIN)
        return;
    (void)poller_run(&ctx->poller, nap_ns);
}

/* Sleep once if a step of progress finds no work: only an event ends the sleep early. */
void conf_sleep_once(struct conf_ctx *ctx)
{
    uint64_t limit = conf_wake_s * conf_patience * NS_PER_S;
    uint64_t nap_ns;
    conf_check_others(ctx);
    if (rails_progress(ctx) > 0)
        return;
    /* one sleep in slices: where the machine stalled, the other ranks get time before the
     * sleep ends */
    tryst_status status = rails_arm(ctx, PATIENCE_STEP, &nap_ns);
    if (status == TRYST_AGAIN)
        return;
    struct patience patience = patience_begin();
    int called = 0;
    do
        called = poller_run(&ctx->poller, nap_ns);
    while (called == 0 && status == TRYST_OK && !atomic_load(&ctx->shared->failed) &&
           patience_spent_ns(&patience) < limit);
    if (called == 0 && patience.spent_ns >= limit)
        CONF_FAIL(
            ctx,
            "a lost wake-up: armed, and no event came within %u s; was waiting at %s",
            conf_wake_s * conf_patience, ctx->shared->ranks[ctx->rank].where);
}

bool conf_dead(const struct conf_peer *peer)
{
    struct pollfd poll_fd = {.fd = peer->pidfd, .events = POLLIN};
    return peer->link_closed || (peer->pidfd >= 0 && poll(&poll_fd, 1, 0) == 1);
}

void conf_idle(struct conf_ctx *ctx, uint64_t ns)
{
    uint64_t until = clock_monotonic_ns() + ns;
    conf_where(ctx, __FILE__, __LINE__, "idle for a while");
    while (clock_monotonic_ns() < until) {
        conf_step(ctx);
        conf_check_others(ctx);
    }
}

void conf_barrier(struct conf_ctx *ctx)
{
    struct conf_shared *shared = ctx->shared;
    uint64_t want = ++ctx->barriers * (uint64_t)ctx->size;
    atomic_fetch_add(&shared->arrived, 1);
    CONF_WAIT(ctx, atomic_load(&shared->arrived) >= want);
}

/* ---- frames ---- */

tryst_status conf_frame_try(struct conf_peer *peer, const void *data, size_t bytes)
{
    struct conf_ctx *ctx = peer->ctx;
    void *given_up;
    ctx->inside++;
    /* A frame that is begun and never committed has no effect. */
    if (random_range(&ctx->random, 8) == 0 &&
        ctx->ops->frame_begin(peer->ep, ctx->rail->frame_max, &given_up) == TRYST_OK) {
        CONF_CHECK(ctx, (uintptr_t)given_up % 8 == 0);
        memset(given_up, 0xee, ctx->rail->frame_max);
    }
    tryst_status status = transport_frame_send(ctx->ops, peer->ep, data, bytes);
    ctx->inside--;
    if (status == TRYST_AGAIN)
        ctx->again_count++;
    peer->frames_sent += status == TRYST_OK;
    return status;
}

void conf_frame(struct conf_peer *peer, const void *data, size_t bytes)
{
    tryst_status status;
    CONF_WAIT(peer->ctx, (status = conf_frame_try(peer, data, bytes)) != TRYST_AGAIN);
    CONF_EQUAL(peer->ctx, status, TRYST_OK);
}

uint64_t conf_unread(const struct conf_peer *peer)
{
    const struct conf_shared *shared = peer->ctx->shared;
    return peer->frames_sent -
           atomic_load(&shared->ranks[peer->rank].frames_read[peer->ctx->rank]);
}
