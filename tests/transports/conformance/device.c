/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory passed straight to the transport, without bounce buffers: memory of a
 * kind that the transport does not support is refused at once, and a refused send leaves
 * the receive as it was.
 *
 * The shared mapping (words 0 and 1, one per rank) counts the receives that each rank has
 * posted. */
#include "cases.h"

static const size_t sizes[] = {0, 1, 600, 5000, 70000, 3u << 20};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

/* A rail that does not list the kind refuses both directions at once, without later
 * effects. */
static void unnamed(struct traffic *traffic)
{
    struct conf_ctx *ctx = traffic->peer->ctx;
    traffic->raw = true;
    if (traffic->bulk.memory)
        CONF_EQUAL(ctx, traffic_try(traffic), TRYST_E_UNSUPPORTED);
    conf_idle(ctx, NS_PER_MS);
    CONF_EQUAL(ctx, traffic->done, 0);
    traffic_free(traffic);
}

/* Send from device memory; where the rail refuses, send the same bytes from host
 * memory. */
static void send_named(struct conf_ctx *ctx, struct conf_peer *peer, uint64_t tag,
                       size_t bytes)
{
    struct traffic send, again;
    tryst_status status;
    traffic_send_make(&send, peer, tag, bytes, 3, tag);
    send.raw = true;
    CONF_WAIT(ctx, (status = traffic_try(&send)) != TRYST_AGAIN);
    if (status == TRYST_OK) {
        CONF_WAIT(ctx, send.done);
        status = send.status;
    } else {
        CONF_EQUAL(ctx, send.done, 0);
    }
    traffic_free(&send);
    if (status == TRYST_OK)
        return;
    CONF_EQUAL(ctx, status, TRYST_E_UNSUPPORTED);
    CONF_CHECK(ctx, ctx->subject->on_device & CONF_SENDS);
    traffic_host_send_make(&again, peer, tag, bytes, 3, tag);
    traffic_start(&again);
    CONF_WAIT(ctx, again.done);
    traffic_check(&again, 0);
    traffic_free(&again);
}

static void recv_named(struct conf_ctx *ctx, struct conf_peer *peer, uint64_t tag,
                       size_t bytes)
{
    struct traffic recv;
    traffic_recv_make(&recv, peer, tag, bytes, 1);
    recv.raw = true;
    traffic_start(&recv);
    signal_add(ctx, (unsigned)ctx->rank, 1);
    CONF_WAIT(ctx, recv.done);
    traffic_check(&recv, tag);
    traffic_free(&recv);
}

void body_device_raw(struct conf_ctx *ctx)
{
    struct conf_peer *peer = conf_pair(ctx);
    bool named = ctx->rail->memory_kinds & 1u << ctx->devices.memory->kind;
    for (uint64_t i = 0; i < SIZES; i++) {
        struct traffic traffic;
        if (!named) {
            traffic_recv_make(&traffic, peer, i, sizes[i], 0);
            unnamed(&traffic);
            traffic_send_make(&traffic, peer, i, sizes[i], 0, i);
            unnamed(&traffic);
        } else if (ctx->rank == 0) {
            recv_named(ctx, peer, i, sizes[i]);
        } else {
            signal_wait(ctx, 0, i + 1);
            send_named(ctx, peer, i, sizes[i]);
        }
    }
    conf_close(ctx);
}
