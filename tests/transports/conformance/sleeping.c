/* SPDX-License-Identifier: Apache-2.0 */
/* Sleep and wake: each side sleeps whenever it is idle, and every event must wake it.
 *
 * A ping-pong of frames and bulks with random pauses, so that events come before, while
 * and after the sleeper arms. One lost wake-up is a silence of 5 s, which fails the
 * test. */
#include "cases.h"

#include <unistd.h>

static void pong_frame(struct conf_peer *peer, const void *data, size_t bytes)
{
    CONF_EQUAL(peer->ctx, bytes, 8);
}

static void pause_random(struct random *random)
{
    uint64_t kind = random_range(random, 16);
    if (kind == 0)
        usleep((unsigned)random_range(random, 150));
    uint64_t until = clock_monotonic_ns() + random_range(random, 1 + 3000 * kind);
    while (kind > 4 && clock_monotonic_ns() < until)
        ;
}

static void frame_try_sleeping(struct conf_peer *peer, uint64_t number)
{
    tryst_status status;
    while ((status = conf_frame_try(peer, &number, sizeof number)) == TRYST_AGAIN)
        conf_sleep_once(peer->ctx);
    CONF_EQUAL(peer->ctx, status, TRYST_OK);
}

/* Rank 0 sends a frame; rank 1 replies with a frame, every fifth time with a bulk. */
static void round_request(struct conf_ctx *ctx, struct conf_peer *peer, uint64_t number)
{
    struct traffic recv;
    bool bulk = number % 5 == 0;
    size_t bytes = 1 + number * 97 % (number % 50 ? 5000 : 300000);
    if (bulk) {
        traffic_recv_make(&recv, peer, number, bytes, 0);
        traffic_start(&recv);
    }
    pause_random(&ctx->random);
    frame_try_sleeping(peer, number);
    if (!bulk) {
        CONF_SLEEP(ctx, peer->frames_read == number + 1 - (number + 4) / 5);
        return;
    }
    CONF_SLEEP(ctx, recv.done);
    traffic_check(&recv, number);
    traffic_free(&recv);
}

static void round_answer(struct conf_ctx *ctx, struct conf_peer *peer, uint64_t number)
{
    struct traffic send;
    tryst_status status;
    CONF_SLEEP(ctx, peer->frames_read == number + 1);
    pause_random(&ctx->random);
    if (number % 5) {
        frame_try_sleeping(peer, number);
        return;
    }
    size_t bytes = 1 + number * 97 % (number % 50 ? 5000 : 300000);
    traffic_send_make(&send, peer, number, bytes, 0, number);
    while ((status = traffic_try(&send)) == TRYST_AGAIN)
        conf_sleep_once(ctx);
    CONF_EQUAL(ctx, status, TRYST_OK);
    CONF_SLEEP(ctx, send.done);
    traffic_free(&send);
}

void body_sleep(struct conf_ctx *ctx)
{
    uint64_t rounds = conf_times(ctx, 10000, 2000);
    conf_open(ctx);
    struct conf_peer *peer = &ctx->peers[1 - ctx->rank];
    peer->on_frame = pong_frame;
    conf_connect(ctx, peer->rank);
    for (uint64_t i = 0; i < rounds; i++) {
        if (ctx->rank == 0)
            round_request(ctx, peer, i);
        else
            round_answer(ctx, peer, i);
    }
    conf_close(ctx);
}
