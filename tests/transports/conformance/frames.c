/* SPDX-License-Identifier: Apache-2.0 */
/* Frames: order, sizes, credit, many peers, loopback. */
#include "cases.h"

#include <string.h>

/* The sender's stream of sizes, replayed by the receiver: a frame holds the pattern of
 * its number. */
struct stream {
    struct random sizes;
    uint64_t count;
    size_t most;
};

static void stream_start(struct stream *stream, const struct conf_ctx *ctx, int from,
                         int to)
{
    random_seed(&stream->sizes, conf_round * 100000 + (uint64_t)(from * 100 + to));
    stream->count = 0;
    stream->most = ctx->rail->frame_max;
}

static size_t stream_size(struct stream *stream)
{
    if (stream->count == 3)
        return stream->most;
    return size_log_uniform(&stream->sizes, stream->most);
}

static void stream_frame(struct conf_peer *peer, const void *data, size_t bytes)
{
    struct stream *stream = peer->arg;
    size_t want = stream_size(stream);
    if (bytes != want || pattern_differs(data, bytes, stream->count) != bytes)
        CONF_FAIL(peer->ctx,
                  "frame %llu from rank %d is not the one that was sent (%zu bytes, "
                  "sent %zu)",
                  (unsigned long long)stream->count, peer->rank, bytes, want);
    stream->count++;
}

/* Send the next frame, unless the peer has as many unread frames as the layer above
 * allows. */
static bool stream_send(struct conf_peer *peer, struct stream *stream, uint8_t *buffer)
{
    if (conf_unread(peer) >= CONF_CREDITS)
        return false;
    struct stream ahead = *stream;
    size_t bytes = stream_size(&ahead);
    pattern_fill(buffer, bytes, stream->count);
    tryst_status status = conf_frame_try(peer, buffer, bytes);
    if (status == TRYST_AGAIN)
        return false;
    CONF_EQUAL(peer->ctx, status, TRYST_OK);
    memset(buffer, 0xcc, bytes); /* the caller's again */
    *stream = ahead;
    stream->count++;
    return true;
}

/* Send until refused, or until `count` frames were sent since the start: a receiver that
 * progresses in the barrier before may have read some already. */
static void stream_fill(struct conf_peer *peer, struct stream *stream, uint8_t *buffer,
                        uint64_t count)
{
    while (stream->count < count && stream_send(peer, stream, buffer))
        ;
}

void body_frames_order(struct conf_ctx *ctx)
{
    uint64_t frames = conf_patience > 1 ? 10000 : 70000; /* the count exceeds 16 bits */
    struct stream out, in;
    _Alignas(8) static _Thread_local uint8_t buffer[1 << 20];
    conf_open(ctx);
    struct conf_peer *peer = &ctx->peers[1 - ctx->rank];
    stream_start(&out, ctx, ctx->rank, peer->rank);
    stream_start(&in, ctx, peer->rank, ctx->rank);
    peer->on_frame = stream_frame;
    peer->arg = &in;
    conf_connect(ctx, peer->rank);
    CONF_CHECK(ctx, ctx->rail->frame_max <= sizeof buffer);
    while (out.count < frames || in.count < frames) {
        for (int burst = 0; burst < 32 && out.count < frames; burst++)
            if (!stream_send(peer, &out, buffer))
                break;
        conf_step(ctx);
        conf_check_others(ctx);
    }
    conf_close(ctx);
}

/* A peer that does not read: as many frames as the layer above may leave unread are
 * accepted or refused, none is lost, and none needs a further action of the sender to
 * arrive. */
void body_frames_full(struct conf_ctx *ctx)
{
    struct stream out, in;
    static _Thread_local uint8_t buffer[1 << 20];
    conf_open(ctx);
    struct conf_peer *peer = &ctx->peers[1 - ctx->rank];
    stream_start(&out, ctx, ctx->rank, peer->rank);
    stream_start(&in, ctx, peer->rank, ctx->rank);
    out.most = in.most = ctx->rail->frame_max;
    peer->on_frame = stream_frame;
    peer->arg = &in;
    conf_connect(ctx, peer->rank);
    for (uint64_t round = 1; round <= 5; round++) {
        conf_barrier(ctx);
        if (ctx->rank == 0) {
            stream_fill(peer, &out, buffer, round * CONF_CREDITS);
            signal_add(ctx, 0, 1);
            for (int i = 0; i < 50; i++)
                conf_step(ctx);
            stream_fill(peer, &out, buffer, round * CONF_CREDITS);
            signal_add(ctx, 1, 1);
            while (out.count < round * CONF_CREDITS) {
                (void)stream_send(peer, &out, buffer);
                conf_step(ctx);
                conf_check_others(ctx);
            }
        } else {
            /* No progress here: the frames pile up unread. */
            struct patience patience = patience_begin();
            while (atomic_load(&ctx->shared->words[1]) < round &&
                   patience_spent_ns(&patience) < 15 * NS_PER_S)
                conf_check_others(ctx);
            CONF_CHECK(ctx, atomic_load(&ctx->shared->words[1]) >= round);
            CONF_WAIT(ctx, in.count == round * CONF_CREDITS);
        }
        conf_barrier(ctx);
    }
    conf_close(ctx);
}

/* Rank 0 exchanges frames with each other rank, both ways, and one bulk each way. */
static void peers_exchange(struct conf_ctx *ctx, struct conf_peer *peer,
                           struct traffic *in, struct traffic *out)
{
    uint64_t mine = (uint64_t)ctx->rank * 1000 + (uint64_t)peer->rank;
    uint64_t theirs = (uint64_t)peer->rank * 1000 + (uint64_t)ctx->rank;
    size_t bytes = 3000 + 500 * (size_t)(ctx->rank + peer->rank);
    traffic_recv_make(in, peer, theirs, bytes, 1);
    traffic_start(in);
    traffic_send_make(out, peer, mine, bytes, 3, mine);
}

void body_peers(struct conf_ctx *ctx)
{
    enum { FRAMES = 40 };
    static _Thread_local struct stream outs[CONF_RANKS_MAX], ins[CONF_RANKS_MAX];
    static _Thread_local struct traffic bulk_in[CONF_RANKS_MAX], bulk_out[CONF_RANKS_MAX];
    static _Thread_local uint8_t buffer[1 << 20];
    int first = ctx->rank == 0 ? 1 : 0, last = ctx->rank == 0 ? ctx->size - 1 : 0;
    conf_wait_s = 90; /* 65 ranks may share two cores */
    conf_open(ctx);
    for (int i = first; i <= last; i++) {
        stream_start(&outs[i], ctx, ctx->rank, i);
        stream_start(&ins[i], ctx, i, ctx->rank);
        ctx->peers[i].on_frame = stream_frame;
        ctx->peers[i].arg = &ins[i];
    }
    for (int i = first; i <= last; i++)
        conf_connect(ctx, i);
    for (int i = first; i <= last; i++)
        peers_exchange(ctx, &ctx->peers[i], &bulk_in[i], &bulk_out[i]);
    conf_barrier(ctx);
    for (int i = first; i <= last; i++)
        traffic_start(&bulk_out[i]);
    for (bool busy = true; busy;) {
        busy = false;
        for (int i = first; i <= last; i++) {
            if (outs[i].count < FRAMES)
                (void)stream_send(&ctx->peers[i], &outs[i], buffer);
            busy = busy || outs[i].count < FRAMES || ins[i].count < FRAMES ||
                   !bulk_in[i].done || !bulk_out[i].done;
        }
        conf_step(ctx);
        conf_check_others(ctx);
    }
    for (int i = first; i <= last; i++) {
        traffic_check(&bulk_in[i], (uint64_t)i * 1000 + (uint64_t)ctx->rank);
        traffic_check(&bulk_out[i], 0);
        traffic_free(&bulk_in[i]);
        traffic_free(&bulk_out[i]);
    }
    conf_close(ctx);
}

/* A context with a loopback endpoint: no link, no messages. */
void body_loopback(struct conf_ctx *ctx)
{
    struct stream out, in;
    static _Thread_local uint8_t buffer[1 << 20];
    conf_open(ctx);
    struct conf_peer *peer = &ctx->peers[0];
    stream_start(&out, ctx, 0, 0);
    stream_start(&in, ctx, 0, 0);
    peer->on_frame = stream_frame;
    peer->arg = &in;
    conf_connect(ctx, 0);
    for (uint64_t i = 0; i < 2000; i++) {
        struct traffic recv, send;
        size_t bytes = size_log_uniform(&ctx->random, 100000) - 1;
        traffic_recv_make(&recv, peer, i, bytes, (unsigned)(i % 8));
        traffic_send_make(&send, peer, i, bytes, (unsigned)(i % 5), i);
        traffic_start(&recv);
        CONF_WAIT(ctx, stream_send(peer, &out, buffer));
        traffic_start(&send);
        CONF_SLEEP(ctx, recv.done && send.done && in.count == out.count);
        traffic_check(&recv, i);
        traffic_check(&send, i);
        traffic_free(&recv);
        traffic_free(&send);
    }
    conf_close(ctx);
}
