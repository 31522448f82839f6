/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Offsets between the clocks of linked ranks, so that all traces can be drawn on rank 0's
 * clock.
 *
 * Idea: ranks that trace exchange their times beside the heartbeats. A message cannot
 * arrive before it was sent, so each message bounds the offset from one side: the peer's
 * clock at the send is at most the peer's clock at the read. The echo of an earlier
 * message bounds the offset from the other side. The tightest bounds count, however long
 * other messages lay unread. A rank takes rank 0's time from linked lower ranks, which
 * add the error of their own offset.
 *
 * Invariant: low_ns <= true offset <= high_ns, if no clock drifts by more than DRIFT. Two
 * ranks that read the same clock (one kernel) find equal clock ids, and the offset is
 * zero without error.
 */
#include "clock_offset.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/os/fd.h"
#include "core/text/hash.h"
#include "messages.h"
#include "rendezvous/op/engine.h"
#include "rendezvous/peer/peer.h"

/* The first messages of a peer, which are answered at once; after them the messages of
 * the ticks suffice. */
enum { PROMPT_ANSWERS = 16 };
/* Clocks of two machines drift apart by at most 100 in a million, usually by far
 * less. */
#define DRIFT(ns) ((int64_t)((ns) / 10000))
/* Largest offset that is accepted (73 years): sums of values from peers stay in
 * range. */
#define OFFSET_MAX (INT64_MAX / 4)

static uint64_t clock_id(void)
{
    struct {
        char boot[40];
        uint64_t namespace;
    } clock = {.namespace = 0};
    struct stat info;
    int fd = FD_MAKE(open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
    ssize_t got = fd >= 0 ? read(fd, clock.boot, 36) : -1;
    if (fd >= 0)
        close(fd);
    if (stat("/proc/self/ns/time", &info) == 0)
        clock.namespace = (uint64_t)info.st_ino;
    return got > 0 ? hash_bytes(&clock, sizeof clock) : 0;
}

/* ---- send -------------------------------------------------------------------------- */

void peer_clock_send(struct peer *peer)
{
    const struct rendezvous *rdv = peer->rdv;
    if (!rdv->trace || !peer->link.link || peer->link.state != PEER_LINK_UP)
        return;
    uint64_t now = trace_now_ns(rdv->trace);
    struct link_clock clock = {
        .now_ns = now,
        .echo_ns = peer->clock.their_ns,
        .held_ns = clock_since_ns(peer->clock.read_ns, now),
        .clock_id = rdv->root_clock.id,
        /* relaxed: this thread is the only writer. */
        .root_ns = atomic_load_explicit(&rdv->root_clock.ns, memory_order_relaxed),
        .root_error_ns =
            atomic_load_explicit(&rdv->root_clock.error_ns, memory_order_relaxed)};
    (void)link_send(peer->link.link, LINK_CLOCK, &clock, sizeof clock, -1);
}

/* ---- read -------------------------------------------------------------------------- */

/* Narrow the bounds: `at_least` <= offset <= `at_most`, as of now. */
static void bounds_update(struct peer_clock *clock, uint64_t now, int64_t at_least,
                          int64_t at_most)
{
    int64_t slack = clock->known ? DRIFT(clock_since_ns(clock->at_ns, now)) : 0;
    clock->at_ns = now;
    if (!clock->known || at_least > clock->low_ns - slack)
        clock->low_ns = at_least;
    else
        clock->low_ns -= slack;
    if (!clock->known || at_most < clock->high_ns + slack)
        clock->high_ns = at_most;
    else
        clock->high_ns += slack;
    clock->known = true;
    if (clock->low_ns > clock->high_ns) { /* a clock has jumped: begin again */
        clock->low_ns = at_least;
        clock->high_ns = at_most;
    }
}

/* Take rank 0's time from a lower peer if its error is not above that of the present
 * offset, or the present offset came from this peer. */
static void root_clock_update(struct peer *peer, const struct link_clock *read)
{
    struct rendezvous *rdv = peer->rdv;
    const struct peer_clock *clock = &peer->clock;
    int64_t offset = clock->low_ns + (clock->high_ns - clock->low_ns) / 2;
    uint64_t width = (uint64_t)(clock->high_ns - clock->low_ns);
    uint64_t error = read->root_error_ns + width / 2 + width % 2;
    /* relaxed: this thread is the only writer; other threads use each value by itself. */
    uint64_t known =
        atomic_load_explicit(&rdv->root_clock.error_ns, memory_order_relaxed);
    bool below = peer->rank < rdv->group->roster.rank;
    bool peer_text = read->root_error_ns <= (uint64_t)OFFSET_MAX &&
                     read->root_ns >= -OFFSET_MAX && read->root_ns <= OFFSET_MAX;
    if (!below || !peer_text || (error > known && rdv->root_clock.rank != peer->rank))
        return;
    rdv->root_clock.rank = peer->rank;
    atomic_store_explicit(&rdv->root_clock.ns, read->root_ns + offset,
                          memory_order_relaxed);
    atomic_store_explicit(&rdv->root_clock.error_ns, error, memory_order_relaxed);
}

void peer_clock_read(struct peer *peer, const void *data, size_t bytes)
{
    struct rendezvous *rdv = peer->rdv;
    struct peer_clock *clock = &peer->clock;
    struct link_clock read;
    if (bytes != sizeof read || !rdv->trace)
        return;
    memcpy(&read, data, sizeof read);
    uint64_t now = trace_now_ns(rdv->trace);
    bool sane = read.now_ns <= (uint64_t)OFFSET_MAX && read.echo_ns <= now &&
                read.held_ns <= read.now_ns;
    if (!sane)
        return;
    clock->their_ns = read.now_ns;
    clock->read_ns = now;
    if (read.clock_id && read.clock_id == rdv->root_clock.id)
        bounds_update(clock, now, 0, 0);
    else if (read.echo_ns) /* the peer sent `read` after it had read the echoed message */
        bounds_update(clock, now, (int64_t)(read.now_ns - now),
                      (int64_t)(read.now_ns - read.held_ns - read.echo_ns));
    if (clock->known)
        root_clock_update(peer, &read);
    if (clock->answers++ < PROMPT_ANSWERS)
        peer_clock_send(peer);
}

/* ---- result ------------------------------------------------------------------------ */

void rendezvous_clock_open(struct rendezvous *rdv)
{
    bool root = rdv->group->roster.rank == 0;
    rdv->root_clock.id = clock_id();
    rdv->root_clock.rank = -1;
    /* relaxed: as in root_clock_update. */
    atomic_store_explicit(&rdv->root_clock.ns, 0, memory_order_relaxed);
    atomic_store_explicit(&rdv->root_clock.error_ns, root ? 0 : UINT64_MAX,
                          memory_order_relaxed);
}

bool rendezvous_clock(const struct rendezvous *rdv, int64_t *offset_ns_p,
                      uint64_t *error_ns_p)
{
    /* relaxed: as in root_clock_update. The two values may come from different messages,
     * which does no harm. */
    *offset_ns_p = atomic_load_explicit(&rdv->root_clock.ns, memory_order_relaxed);
    *error_ns_p = atomic_load_explicit(&rdv->root_clock.error_ns, memory_order_relaxed);
    return *error_ns_p != UINT64_MAX;
}
