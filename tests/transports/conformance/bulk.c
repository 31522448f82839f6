/* SPDX-License-Identifier: Apache-2.0 */
/* Bulk: sizes, many at once, cancel, unexpected tags, and control that must not queue
 * behind it.
 *
 * The shared mapping (words 0 and 1, one per rank) counts the receives that each rank has
 * posted. */
#include "cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Report `by` more posted receives of this rank to the other rank. */
static void posted_announce(struct conf_ctx *ctx, uint64_t by)
{
    signal_add(ctx, (unsigned)ctx->rank, by);
}

static void posted_wait(struct conf_ctx *ctx, uint64_t at_least)
{
    signal_wait(ctx, (unsigned)(1 - ctx->rank), at_least);
}

static uint64_t tag_highest(const struct conf_ctx *ctx)
{
    return ctx->rail->tag_bits >= 64 ? UINT64_MAX
                                     : (UINT64_C(1) << ctx->rail->tag_bits) - 1;
}

/* Send both ways at once; `step` selects the pattern. */
static void both_ways(struct conf_ctx *ctx, struct conf_peer *peer, uint64_t step,
                      uint64_t tag, size_t bytes, unsigned recv_offset,
                      unsigned send_offset)
{
    struct traffic recv, send;
    traffic_recv_make(&recv, peer, tag, bytes, recv_offset);
    traffic_send_make(&send, peer, tag, bytes, send_offset,
                      step * 2 + (uint64_t)ctx->rank);
    traffic_start(&recv);
    posted_announce(ctx, 1);
    posted_wait(ctx, step + 1);
    traffic_start(&send);
    CONF_WAIT(ctx, recv.done && send.done);
    traffic_check(&recv, step * 2 + (uint64_t)peer->rank);
    traffic_check(&send, 0);
    traffic_free(&recv);
    traffic_free(&send);
}

void body_bulk_sizes(struct conf_ctx *ctx)
{
    static const size_t sizes[] = {0,
                                   1,
                                   2,
                                   7,
                                   8,
                                   9,
                                   63,
                                   64,
                                   65,
                                   1000,
                                   4095,
                                   4096,
                                   4097,
                                   8191,
                                   16384,
                                   32767,
                                   32768,
                                   65535,
                                   65536,
                                   65537,
                                   262143,
                                   1u << 20,
                                   (1u << 20) + 3,
                                   5000001,
                                   64u << 20};
    struct conf_peer *peer = conf_pair(ctx);
    uint64_t step = 0, times = conf_times(ctx, 4, 2);
    size_t count = sizeof sizes / sizeof sizes[0];
    if (ctx->subject->on_device)
        count--; /* filling and checking the largest takes a second */
    for (size_t i = 0; i < count; i++)
        for (unsigned k = 0; k < (sizes[i] < (4u << 20) ? times : 1); k++, step++)
            both_ways(ctx, peer, step, step % 2 ? tag_highest(ctx) - step : step,
                      sizes[i], k * 3 % 8, k * 5 % 8);
    conf_close(ctx);
}

/* The largest bulk, one way. Needs twice its bytes of memory. */
void body_bulk_huge(struct conf_ctx *ctx)
{
    size_t bytes = (UINT64_C(4) << 30) + 1;
    conf_wait_s = 250; /* a busy machine is slow to fill and compare 4 GiB */
    struct conf_peer *peer = conf_pair(ctx);
    CONF_CHECK(ctx, ctx->rail->bulk_max >= bytes);
    struct traffic bulk;
    if (ctx->rank == 0) {
        traffic_recv_make(&bulk, peer, 7, bytes, 1);
        traffic_start(&bulk);
        posted_announce(ctx, 1);
    } else {
        traffic_send_make(&bulk, peer, 7, bytes, 3, 99);
        posted_wait(ctx, 1);
        traffic_start(&bulk);
    }
    CONF_WAIT(ctx, bulk.done);
    traffic_check(&bulk, 99);
    traffic_free(&bulk);
    conf_close(ctx);
}

/* ---- many at once ---- */

enum { MANY_MAX = 512 };

static size_t many_bytes(uint64_t seed, int from, uint32_t i)
{
    struct random random;
    random_seed(&random, seed * 1000003 + (uint64_t)from * 77777 + i);
    return size_log_uniform(&random, 60000) - 1;
}

static void shuffle(struct random *random, uint32_t *order, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        order[i] = i;
    for (uint32_t i = count; i > 1; i--) {
        uint32_t k = (uint32_t)random_range(random, i), other = order[k];
        order[k] = order[i - 1];
        order[i - 1] = other;
    }
}

/* Post as many receives as allowed; start the sends in another order. */
static void many_round(struct conf_ctx *ctx, struct conf_peer *peer, uint64_t round,
                       uint32_t count, struct traffic *recvs, struct traffic *sends)
{
    uint32_t order[MANY_MAX];
    struct traffic beyond;
    uint64_t base = tag_highest(ctx) - (round + 1) * 1000;
    for (uint32_t i = 0; i < count; i++) {
        traffic_recv_make(&recvs[i], peer, base + i, many_bytes(round, peer->rank, i),
                          i % 8);
        CONF_EQUAL(ctx, traffic_try(&recvs[i]), TRYST_OK);
        traffic_send_make(&sends[i], peer, base + i, many_bytes(round, ctx->rank, i),
                          (i + 1) % 8, base + i + (uint64_t)ctx->rank);
    }
    if (count == ctx->rail->posted_max) {
        traffic_recv_make(&beyond, peer, base + count, 8, 0);
        CONF_EQUAL(ctx, traffic_try(&beyond), TRYST_AGAIN);
        traffic_free(&beyond);
    }
    posted_announce(ctx, 1);
    posted_wait(ctx, round + 1);
    shuffle(&ctx->random, order, count);
    for (uint32_t i = 0; i < count; i++)
        traffic_start(&sends[order[i]]);
    CONF_WAIT(ctx, peer->bulk_live == 0);
    for (uint32_t i = 0; i < count; i++) {
        traffic_check(&recvs[i], base + i + (uint64_t)peer->rank);
        traffic_check(&sends[i], 0);
        traffic_free(&recvs[i]);
        traffic_free(&sends[i]);
    }
}

void body_bulk_many(struct conf_ctx *ctx)
{
    struct conf_peer *peer = conf_pair(ctx);
    uint32_t count = ctx->rail->posted_max < MANY_MAX ? ctx->rail->posted_max : MANY_MAX;
    if (ctx->subject->on_device)
        count = 64; /* the number that every rail accepts */
    struct traffic *recvs = calloc(MANY_MAX, sizeof *recvs);
    struct traffic *sends = calloc(MANY_MAX, sizeof *sends);
    for (uint64_t round = 0; round < conf_times(ctx, 20, 2); round++)
        many_round(ctx, peer, round, count, recvs, sends);
    free(recvs);
    free(sends);
    conf_close(ctx);
}

/* ---- sizes that differ ---- */

static void differing(struct conf_ctx *ctx, struct conf_peer *peer, uint64_t step,
                      size_t recv_bytes, size_t send_bytes)
{
    struct traffic bulk;
    if (ctx->rank == 0) {
        traffic_recv_make(&bulk, peer, step, recv_bytes, 0);
        traffic_start(&bulk);
        posted_announce(ctx, 1);
        CONF_WAIT(ctx, bulk.done);
        traffic_check_either(&bulk, step);
        CONF_EQUAL(ctx, bulk.status,
                   send_bytes > recv_bytes ? TRYST_E_MISMATCH : TRYST_OK);
        if (bulk.status == TRYST_OK)
            CONF_EQUAL(ctx, bulk.got, send_bytes);
    } else {
        traffic_send_make(&bulk, peer, step, send_bytes, 0, step);
        posted_wait(ctx, step + 1);
        traffic_start(&bulk);
        CONF_WAIT(ctx, bulk.done);
    }
    traffic_free(&bulk);
}

void body_bulk_mismatch(struct conf_ctx *ctx)
{
    static const size_t sizes[][2] = {{0, 1},
                                      {8, 9},
                                      {100, 50},
                                      {100, 0},
                                      {4096, 8192},
                                      {65536, 65535},
                                      {1000, 1u << 20},
                                      {1u << 20, 10},
                                      {1u << 20, (1u << 20) + 1},
                                      {3u << 20, 5u << 20}};
    struct conf_peer *peer = conf_pair(ctx);
    for (uint64_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        differing(ctx, peer, i, sizes[i][0], sizes[i][1]);
    conf_barrier(ctx);
    /* all correct after the transfers? */
    uint64_t done = atomic_load(&ctx->shared->words[0]);
    posted_announce(ctx, ctx->rank == 1 ? done : 0);
    conf_barrier(ctx);
    both_ways(ctx, peer, done, 1 << 20, 300000, 0, 0);
    conf_close(ctx);
}

/* ---- cancelled ---- */

/* A receive that is cancelled before its message comes: no byte is written, and its id is
 * free again. */
static void cancel_idle(struct conf_ctx *ctx, struct conf_peer *peer, uint64_t tag)
{
    struct traffic recv;
    if (ctx->rank == 1)
        return;
    traffic_recv_make(&recv, peer, tag, 5000, 0);
    traffic_start(&recv);
    for (uint64_t i = random_range(&ctx->random, 4); i > 0; i--)
        conf_step(ctx);
    traffic_cancel(&recv);
    CONF_WAIT(ctx, recv.done);
    CONF_EQUAL(ctx, recv.status, TRYST_E_CANCELED);
    traffic_check_untouched(&recv);
    traffic_free(&recv);
}

/* A receive that is cancelled while its message may be arriving: one outcome, and no byte
 * is written afterwards. */
static void cancel_racing(struct conf_ctx *ctx, struct conf_peer *peer, uint64_t round,
                          size_t bytes, uint64_t *canceled_p)
{
    struct traffic bulk;
    uint64_t tag = 1000000 + round;
    if (ctx->rank == 1) {
        traffic_send_make(&bulk, peer, tag, bytes, 0, round);
        posted_wait(ctx, round + 1);
        traffic_start(&bulk);
        CONF_WAIT(ctx, bulk.done);
        conf_barrier(ctx);
        traffic_free(&bulk);
        return;
    }
    traffic_recv_make(&bulk, peer, tag, bytes, 0);
    traffic_start(&bulk);
    posted_announce(ctx, 1);
    uint64_t until = clock_monotonic_ns() + random_range(&ctx->random, 300 * NS_PER_US);
    while (clock_monotonic_ns() < until && !bulk.done)
        conf_step(ctx);
    if (!bulk.done)
        traffic_cancel(&bulk);
    CONF_WAIT(ctx, bulk.done);
    CONF_CHECK(ctx, bulk.status == TRYST_OK || bulk.status == TRYST_E_CANCELED);
    traffic_check_either(&bulk, round);
    *canceled_p += bulk.status == TRYST_E_CANCELED;
    memset(bulk.data, TRAFFIC_UNTOUCHED, bytes);
    place_put(&bulk.place);
    conf_barrier(ctx);
    traffic_check_untouched(&bulk);
    traffic_free(&bulk);
}

void body_bulk_cancel(struct conf_ctx *ctx)
{
    static const size_t sizes[] = {1, 3000, 60000, 1000000, 4000000};
    struct conf_peer *peer = conf_pair(ctx);
    uint64_t canceled = 0, rounds = conf_times(ctx, 150, 40);
    for (uint64_t round = 0; round < rounds; round++) {
        cancel_idle(ctx, peer, round % 3); /* the same tags repeatedly */
        cancel_racing(ctx, peer, round, sizes[round % 5], &canceled);
        CONF_CHECK(ctx, peer->unexpected_count <= canceled);
    }
    posted_announce(ctx, ctx->rank == 1 ? rounds : 0);
    conf_barrier(ctx);
    both_ways(ctx, peer, rounds, 5, 300000, 0, 0);
    conf_close(ctx);
}

/* ---- unexpected bulk ---- */

/* A bulk without a posted receive is reported once, and posted receives stay as they
 * are. */
static void stranger(struct conf_ctx *ctx, struct conf_peer *peer, uint64_t round,
                     size_t bytes)
{
    struct traffic other, foreign;
    if (ctx->rank == 1) {
        traffic_send_make(&foreign, peer, 500 + round, bytes, 0, round);
        posted_wait(ctx, round + 1);
        traffic_start(&foreign);
        conf_barrier(ctx);
        CONF_WAIT(ctx, foreign.done);
        traffic_free(&foreign);
        return;
    }
    traffic_recv_make(&other, peer, 400 + round, bytes, 0);
    traffic_start(&other);
    posted_announce(ctx, 1);
    CONF_WAIT(ctx, peer->unexpected_count == round + 1);
    CONF_EQUAL(ctx, peer->unexpected_tag, 500 + round);
    CONF_EQUAL(ctx, peer->unexpected_bytes, bytes);
    conf_barrier(ctx);
    conf_idle(ctx, 2 * NS_PER_MS);
    CONF_EQUAL(ctx, other.done, 0);
    traffic_check_untouched(&other);
    traffic_cancel(&other);
    CONF_WAIT(ctx, other.done);
    CONF_EQUAL(ctx, other.status, TRYST_E_CANCELED);
    traffic_free(&other);
}

void body_bulk_unexpected(struct conf_ctx *ctx)
{
    static const size_t sizes[] = {0, 1, 4000, 20000, 100000, 1u << 20, 20u << 20};
    struct conf_peer *peer = conf_pair(ctx);
    for (uint64_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        stranger(ctx, peer, i, sizes[i]);
    conf_close(ctx);
}

/* ---- control is not behind payload ---- */

enum { AHEAD_BULKS = 64, AHEAD_BYTES = 1 << 20, AHEAD_TRIES = 3 };

struct ahead {
    struct traffic bulks[AHEAD_BULKS];
    int done_at_frame;
};

static void ahead_frame(struct conf_peer *peer, const void *data, size_t bytes)
{
    struct ahead *ahead = peer->arg;
    ahead->done_at_frame = AHEAD_BULKS - peer->bulk_live;
}

static bool ahead_announce(struct conf_ctx *ctx, struct conf_peer *peer)
{
    atomic_store(&ctx->shared->words[5], (uint64_t)(AHEAD_BULKS - peer->bulk_live));
    return peer->bulk_live == 0;
}

static void ahead_send(struct conf_ctx *ctx, struct conf_peer *peer, struct ahead *ahead,
                       uint64_t try)
{
    tryst_status status = TRYST_OK;
    int started = 1;
    for (int i = 0; i < AHEAD_BULKS; i++)
        traffic_send_make(&ahead->bulks[i], peer, try * 1000 + (uint64_t)i, AHEAD_BYTES,
                          0, try);
    posted_wait(ctx, try + 1);
    traffic_start(&ahead->bulks[0]); /* a fault script may refuse the bulk a few times */
    while (started < AHEAD_BULKS &&
           (status = traffic_try(&ahead->bulks[started])) == TRYST_OK)
        started++;
    CONF_CHECK(ctx, status == TRYST_OK || status == TRYST_AGAIN);
    uint64_t done = atomic_load(&ctx->shared->words[5]);
    conf_frame(peer, "urgent", 6);
    atomic_store(&ctx->shared->words[6], done);
    while (started < AHEAD_BULKS)
        traffic_start(&ahead->bulks[started++]);
    CONF_WAIT(ctx, peer->bulk_live == 0);
}

static void ahead_receive(struct conf_ctx *ctx, struct conf_peer *peer,
                          struct ahead *ahead, uint64_t try)
{
    ahead->done_at_frame = -1;
    for (int i = 0; i < AHEAD_BULKS; i++) {
        traffic_recv_make(&ahead->bulks[i], peer, try * 1000 + (uint64_t)i, AHEAD_BYTES,
                          0);
        traffic_start(&ahead->bulks[i]);
    }
    atomic_store(&ctx->shared->words[5], 0);
    posted_announce(ctx, 1);
    CONF_WAIT(ctx, ahead_announce(ctx, peer) && ahead->done_at_frame >= 0);
}

/* While 64 MiB are queued, a frame overtakes nearly all of them. Another process may take
 * the core between two lines, so the best of a few tries counts: a frame that queues
 * behind payload is late in each try. */
void body_control_ahead(struct conf_ctx *ctx)
{
    struct conf_peer *peer = conf_pair(ctx);
    struct ahead *ahead = calloc(1, sizeof *ahead);
    int best = AHEAD_BULKS;
    peer->on_frame = ahead_frame;
    peer->arg = ahead;
    for (uint64_t try = 0; try < AHEAD_TRIES; try++) {
        if (ctx->rank == 0)
            ahead_send(ctx, peer, ahead, try);
        else
            ahead_receive(ctx, peer, ahead, try);
        conf_barrier(ctx);
        int passed = ahead->done_at_frame - (int)atomic_load(&ctx->shared->words[6]);
        best = passed < best ? passed : best;
        for (int i = 0; i < AHEAD_BULKS; i++) {
            traffic_check(&ahead->bulks[i], try);
            traffic_free(&ahead->bulks[i]);
        }
        conf_barrier(ctx);
    }
    if (ctx->rank == 1 && best > AHEAD_BULKS / 4)
        CONF_FAIL(ctx, "%d of %d MiB passed a frame that was sent before them", best,
                  AHEAD_BULKS);
    free(ahead);
    conf_close(ctx);
}
