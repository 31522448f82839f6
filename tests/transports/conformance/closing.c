/* SPDX-License-Identifier: Apache-2.0 */
/* Endings: close with work in flight, close while connecting, a peer that is killed or
 * stopped, and many lives in a row. After `closed` each buffer is refilled and checked,
 * so a late read or write by the transport is found. */
#include "cases.h"

#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/memory/alloc.h"
#include "support/descriptors.h"
#include "support/resident.h"

enum { FLIGHT = 8, FLIGHT_BYTES = 2000003, RECYCLED = 424242 };

/* Bulks in flight, both ways. */
struct flight {
    struct traffic recvs[FLIGHT], sends[FLIGHT];
    int started; /* sends that the transport accepted */
};

static uint64_t flight_pattern(int from, int i)
{
    return conf_round * 1000 + (uint64_t)(from * 100 + i);
}

static void flight_make(struct flight *flight, struct conf_peer *peer)
{
    struct conf_ctx *ctx = peer->ctx;
    flight->started = 0;
    for (int i = 0; i < FLIGHT; i++) {
        traffic_recv_make(&flight->recvs[i], peer, 100 + (uint64_t)i, FLIGHT_BYTES, 0);
        traffic_send_make(&flight->sends[i], peer, 100 + (uint64_t)i, FLIGHT_BYTES, 1,
                          flight_pattern(ctx->rank, i));
        traffic_start(&flight->recvs[i]);
    }
}

/* Start as many transfers as the transport accepts. The peer may fail. */
static void flight_push(struct flight *flight, struct conf_peer *peer)
{
    while (flight->started < FLIGHT && !peer->closing) {
        tryst_status status = traffic_try(&flight->sends[flight->started]);
        if (status == TRYST_AGAIN)
            return;
        if (status == TRYST_E_PEER && (peer->left || peer->failed || conf_dead(peer)))
            return;
        CONF_EQUAL(peer->ctx, status, TRYST_OK);
        flight->started++;
    }
}

/* Check that each accepted transfer completed once, and with the right bytes where its
 * status is TRYST_OK; then reuse the buffers. */
static void flight_check(struct flight *flight, struct conf_peer *peer)
{
    for (int i = 0; i < FLIGHT; i++) {
        traffic_check_either(&flight->recvs[i], flight_pattern(peer->rank, i));
        if (i < flight->started)
            CONF_EQUAL(peer->ctx, flight->sends[i].done, 1);
        traffic_recycle(&flight->recvs[i], RECYCLED);
        traffic_recycle(&flight->sends[i], RECYCLED);
    }
}

static void flight_free(struct flight *flight)
{
    for (int i = 0; i < FLIGHT; i++) {
        traffic_check_recycled(&flight->recvs[i], RECYCLED);
        traffic_free(&flight->recvs[i]);
        traffic_free(&flight->sends[i]);
    }
    free(flight);
}

static void step_for(struct conf_ctx *ctx, uint64_t ns, struct flight *flight,
                     struct conf_peer *peer)
{
    uint64_t until = clock_monotonic_ns() + ns;
    while (clock_monotonic_ns() < until) {
        flight_push(flight, peer);
        conf_step(ctx);
        conf_check_others(ctx);
    }
}

/* Rank 0, rank 1 or both close; a rank that does not begin closes when its peer does. */
void body_close_busy(struct conf_ctx *ctx)
{
    struct conf_peer *peer = conf_pair(ctx);
    struct flight *flight = calloc(1, sizeof *flight);
    bool first = conf_round % 3 == 2 || conf_round % 3 == (uint64_t)ctx->rank;
    flight_make(flight, peer);
    conf_barrier(ctx);
    peer->may_fail = true;
    step_for(ctx, random_range(&ctx->random, 3 * NS_PER_MS), flight, peer);
    if (first)
        conf_ep_close(peer);
    while (!first && !peer->left && !peer->link_closed) {
        flight_push(flight, peer);
        conf_step(ctx);
        conf_check_others(ctx);
    }
    if (!peer->closing)
        conf_ep_close(peer);
    conf_closed(peer);
    flight_check(flight, peer);
    conf_idle(ctx, 20 * NS_PER_MS);
    conf_barrier(ctx);
    flight_free(flight);
    conf_close(ctx);
}

/* Close an endpoint while it connects, or at once; then connect and close once more. */
void body_close_opening(struct conf_ctx *ctx)
{
    for (int round = 0; round < 30; round++) {
        conf_open(ctx);
        struct conf_peer *peer = conf_link(ctx, 1 - ctx->rank);
        peer->may_fail = true;
        if (ctx->rank == 0 || round % 3) {
            conf_ep_open(peer);
            uint64_t until =
                clock_monotonic_ns() + random_range(&ctx->random, 500 * NS_PER_US);
            while (round % 2 && clock_monotonic_ns() < until)
                conf_step(ctx);
            conf_ep_close(peer);
            conf_closed(peer);
        }
        conf_close(ctx);
    }
    conf_pair(ctx);
    conf_close(ctx);
}

/* Connect messages that are damaged in transit are refused, fail, or are by chance still
 * valid. They never cause a crash, a leak or an endpoint that does not close. */
void body_connect_hostile(struct conf_ctx *ctx)
{
    for (int round = 0; round < 40; round++) {
        conf_open(ctx);
        ctx->mutate = ctx->rank == 1;
        struct conf_peer *peer = conf_link(ctx, 1 - ctx->rank);
        peer->may_fail = true;
        conf_ep_open(peer);
        uint64_t until = clock_monotonic_ns() + 5 * NS_PER_MS;
        while (clock_monotonic_ns() < until)
            conf_step(ctx);
        conf_barrier(ctx);
        conf_ep_close(peer);
        conf_closed(peer);
        conf_close(ctx);
    }
    ctx->mutate = false;
    conf_pair(ctx);
    conf_close(ctx);
}

/* A frame holds a number; keep the highest number received. */
static void number_frame(struct conf_peer *peer, const void *data, size_t bytes)
{
    uint64_t number, *highest = peer->arg;
    CONF_EQUAL(peer->ctx, bytes, sizeof number);
    memcpy(&number, data, sizeof number);
    if (number > *highest)
        *highest = number;
}

/* Send one bulk and one frame each way; the frame announces that the receive is posted.
 * Numbers are at least 1 and rise. */
static void exchange(struct conf_ctx *ctx, struct conf_peer *peer, uint64_t number)
{
    struct traffic recv, send;
    const uint64_t *highest = peer->arg;
    traffic_recv_make(&recv, peer, number, 70000, 0);
    traffic_send_make(&send, peer, number, 70000, 1, number);
    traffic_start(&recv);
    conf_frame(peer, &number, sizeof number);
    CONF_WAIT(ctx, *highest >= number);
    traffic_start(&send);
    CONF_WAIT(ctx, recv.done && send.done);
    traffic_check(&recv, number);
    traffic_free(&recv);
    traffic_free(&send);
}

/* ---- killed ---- */

/* Do what the layer above does when a peer dies, and check what must hold afterwards. */
static void survive(struct conf_ctx *ctx, struct conf_peer *peer, struct flight *flight)
{
    struct patience patience = patience_begin();
    conf_where(ctx, __FILE__, __LINE__, "the peer's death");
    while (!conf_dead(peer)) {
        flight_push(flight, peer);
        conf_step(ctx);
        conf_check_others(ctx);
        CONF_CHECK(ctx,
                   patience_spent_ns(&patience) < conf_wait_s * conf_patience * NS_PER_S);
    }
    conf_ep_close(peer);
    conf_closed(peer);
    flight_check(flight, peer);
    conf_idle(ctx, 200 * NS_PER_MS);
    flight_free(flight);
    conf_close_alone(ctx);
}

static void die(struct conf_ctx *ctx, struct conf_peer *peer, struct flight *flight)
{
    step_for(ctx, random_range(&ctx->random, 4 * NS_PER_MS), flight, peer);
    (void)kill(getpid(), SIGKILL);
    CONF_FAIL(ctx, "still alive");
}

static void killed(struct conf_ctx *ctx, bool leaves_child)
{
    atomic_store(&ctx->shared->ranks[1].mortal, 1);
    struct conf_peer *peer = conf_pair(ctx);
    struct flight *flight = calloc(1, sizeof *flight);
    peer->may_fail = true;
    flight_make(flight, peer);
    conf_barrier(ctx);
    if (ctx->rank == 0)
        survive(ctx, peer, flight);
    if (ctx->rank == 1 && leaves_child && fork() == 0) {
        usleep(1500000); /* inherits every descriptor of its parent, and idles */
        _exit(0);
    }
    if (ctx->rank == 1)
        die(ctx, peer, flight);
}

void body_killed(struct conf_ctx *ctx)
{
    killed(ctx, false);
}

void body_killed_leaves_child(struct conf_ctx *ctx)
{
    killed(ctx, true);
}

/* Three ranks; one is killed with work in flight. The traffic between the other two is
 * unaffected, meanwhile and afterwards. */
void body_killed_others(struct conf_ctx *ctx)
{
    int friend_rank = ctx->rank == 0 ? 2 : 0;
    struct conf_peer *victim = &ctx->peers[1], *friend = &ctx->peers[friend_rank];
    struct flight *flight = calloc(1, sizeof *flight);
    uint64_t count = 0, highest = 0;
    atomic_store(&ctx->shared->ranks[1].mortal, 1);
    conf_open(ctx);
    for (int i = 0; i < 3; i++)
        if (i != ctx->rank)
            conf_connect(ctx, i);
    victim->may_fail = true;
    flight_make(flight, ctx->rank == 1 ? &ctx->peers[0] : victim);
    conf_barrier(ctx);
    if (ctx->rank == 1) {
        ctx->peers[0].may_fail = ctx->peers[2].may_fail = true;
        die(ctx, &ctx->peers[0], flight);
    }
    friend->on_frame = number_frame;
    friend->arg = &highest;
    struct patience patience = patience_begin();
    conf_where(ctx, __FILE__, __LINE__, "the death of rank 1");
    while (!conf_gone(victim)) {
        flight_push(flight, victim);
        if (!victim->closing && conf_dead(victim))
            conf_ep_close(victim);
        if (conf_unread(friend) < CONF_CREDITS)
            (void)conf_frame_try(friend, &count, sizeof count);
        conf_step(ctx);
        conf_check_others(ctx);
        CONF_CHECK(ctx, patience_spent_ns(&patience) < 5 * NS_PER_S * conf_patience);
    }
    CONF_CHECK(ctx, !friend->failed);
    flight_check(flight, victim);
    for (count = 0; count < 20; count++)
        exchange(ctx, friend, 1000 + count);
    CONF_CHECK(ctx, !friend->failed);
    flight_free(flight);
    friend->may_fail = true;
    signal_add(ctx, 0, 1);
    signal_wait(ctx, 0, 2);
    conf_close_alone(ctx);
}

/* A peer that is stopped for 2 s is alive: no operation fails, and all of them go on. */
void body_stopped(struct conf_ctx *ctx)
{
    struct conf_peer *peer = conf_pair(ctx);
    struct flight *flight = calloc(1, sizeof *flight);
    flight_make(flight, peer);
    conf_barrier(ctx);
    step_for(ctx, random_range(&ctx->random, NS_PER_MS), flight, peer);
    if (ctx->rank == 0) {
        CONF_CHECK(ctx, kill(ctx->shared->pids[1], SIGSTOP) == 0);
        step_for(ctx, 2 * NS_PER_S, flight, peer);
        CONF_CHECK(ctx, kill(ctx->shared->pids[1], SIGCONT) == 0);
    }
    while (flight->started < FLIGHT || peer->bulk_live > 0) {
        flight_push(flight, peer);
        conf_step(ctx);
        conf_check_others(ctx);
    }
    for (int i = 0; i < FLIGHT; i++) {
        traffic_check(&flight->recvs[i], flight_pattern(peer->rank, i));
        traffic_check(&flight->sends[i], 0);
    }
    flight_check(flight, peer);
    conf_barrier(ctx);
    flight_free(flight);
    conf_close(ctx);
}

/* ---- many lives ---- */

static void life(struct conf_ctx *ctx, uint64_t number)
{
    conf_open(ctx);
    struct conf_peer *peer = &ctx->peers[1 - ctx->rank];
    uint64_t highest = 0;
    peer->on_frame = number_frame;
    peer->arg = &highest;
    conf_connect(ctx, peer->rank);
    exchange(ctx, peer, number + 1);
    conf_close(ctx);
}

/* Resident memory without the freed chunks that malloc caches: rxm allocates and frees
 * pools of 16 MiB. */
static long held_kib(void)
{
    (void)malloc_trim(0);
    return (long)resident_kib();
}

/* Each rank is a process, so memory and descriptors can be compared after each life. The
 * growth allowed is 1 KiB a life (a quarter of a page, the smallest leak that shows as
 * pages) plus the known leak of the fabric's library. */
void body_cycles(struct conf_ctx *ctx)
{
    uint64_t lives = ctx->subject->run_long ? 1000 : 200;
    uint64_t live = 0;
    long resident = 0;
    int fds = 0;
    for (uint64_t i = 0; i < lives; i++) {
        life(ctx, i);
        if (ctx->threads)
            continue;
        if (i == 99) {
            live = alloc_live_count();
            resident = held_kib();
            fds = descriptors_open();
        } else if (i > 99) {
            CONF_EQUAL(ctx, alloc_live_count(), live);
            CONF_EQUAL(ctx, descriptors_open(), fds);
        }
    }
    if (ctx->threads) /* the ranks share one memory */
        return;
    long grown = held_kib() - resident;
    long most = 128 + (1 + ctx->subject->leaks_kib) * (long)(lives - 100);
    if (conf_patience == 1 && grown > most)
        CONF_FAIL(ctx, "resident memory grew by %ld KiB in %llu lives", grown,
                  (unsigned long long)(lives - 100));
}
