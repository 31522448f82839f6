/* SPDX-License-Identifier: Apache-2.0 */
/* Bulk messages whose bytes can be checked (traffic.h). */
#include "traffic.h"

#include <stdlib.h>
#include <string.h>

static uint64_t pattern_word(uint64_t pattern, uint64_t index)
{
    return (pattern + 1) * 0x9e3779b97f4a7c15 + index * 0xbf58476d1ce4e5b9;
}

void pattern_fill(void *data, size_t bytes, uint64_t pattern)
{
    uint8_t *at = data;
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word = pattern_word(pattern, i / 8);
        memcpy(at + i, &word, bytes - i < 8 ? bytes - i : 8);
    }
}

size_t pattern_differs(const void *data, size_t bytes, uint64_t pattern)
{
    const uint8_t *at = data;
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word = pattern_word(pattern, i / 8);
        size_t piece = bytes - i < 8 ? bytes - i : 8;
        for (size_t k = 0; memcmp(at + i, &word, piece) != 0 && k < piece; k++)
            if (at[i + k] != ((uint8_t *)&word)[k])
                return i + k;
    }
    return bytes;
}

static void traffic_end(struct traffic *traffic, tryst_status status, size_t bytes)
{
    traffic->done = 1;
    traffic->borrowed = false;
    traffic->status = status;
    traffic->got = bytes;
    traffic->peer->bulk_live--;
    memset(&traffic->bulk, 0xdd, sizeof traffic->bulk);
}

static void on_done(struct bulk *bulk, tryst_status status, size_t bytes)
{
    struct traffic *traffic =
        (struct traffic *)((char *)bulk - offsetof(struct traffic, bulk));
    struct conf_ctx *ctx = traffic->peer->ctx;
    if (ctx->inside)
        CONF_FAIL(ctx, "a bulk completed inside the call that started or closed it");
    CONF_EQUAL(ctx, traffic->done, 0);
    CONF_CHECK(ctx, !traffic->peer->closed || traffic->peer->lane.busy > 0);
    CONF_CHECK(ctx, status == TRYST_OK || status == TRYST_E_CANCELED ||
                        status == TRYST_E_MISMATCH || status == TRYST_E_PEER ||
                        (status == TRYST_E_UNSUPPORTED && traffic->raw));
    traffic_end(traffic, status, bytes);
}

static void on_borrowed(struct bulk *bulk, size_t bytes)
{
    struct traffic *traffic =
        (struct traffic *)((char *)bulk - offsetof(struct traffic, bulk));
    struct conf_ctx *ctx = traffic->peer->ctx;
    if (ctx->inside)
        CONF_FAIL(ctx, "a message was reported inside the call that posted its receive");
    CONF_CHECK(ctx, !traffic->done && !traffic->borrowed && !traffic->canceled);
    CONF_CHECK(ctx, bytes <= traffic->bytes);
    traffic->borrowed = true;
    traffic->got = bytes;
}

/* Each tag uses another device, so each pair of devices is covered. */
static void traffic_make(struct traffic *traffic, struct conf_peer *peer, uint64_t tag,
                         size_t bytes, unsigned offset, enum conf_ends end,
                         bool on_device)
{
    struct conf_ctx *ctx = peer->ctx;
    struct place *place = &traffic->place;
    bool is_send = end == CONF_SENDS;
    *traffic =
        (struct traffic){.peer = peer, .bytes = bytes, .tag = tag, .is_send = is_send};
    place_open(ctx, on_device, is_send ? tag : tag / 2, bytes + 2 * TRAFFIC_BORDER + 8,
               place);
    memset(place->view, TRAFFIC_UNTOUCHED, place->bytes);
    traffic->data = place->view + TRAFFIC_BORDER + offset;
    traffic->bulk = (struct bulk){.done = on_done,
                                  .tag = tag,
                                  .data = place->data + TRAFFIC_BORDER + offset,
                                  .bytes = bytes,
                                  .mem = place->mem,
                                  .memory = place->memory,
                                  .device = place->device};
    memset(&traffic->bulk.scratch, 0xee, sizeof traffic->bulk.scratch);
}

void traffic_recv_make(struct traffic *traffic, struct conf_peer *peer, uint64_t tag,
                       size_t bytes, unsigned offset)
{
    traffic_make(traffic, peer, tag, bytes, offset, CONF_RECEIVES,
                 peer->ctx->subject->on_device & CONF_RECEIVES);
    place_put(&traffic->place);
}

void traffic_send_make(struct traffic *traffic, struct conf_peer *peer, uint64_t tag,
                       size_t bytes, unsigned offset, uint64_t pattern)
{
    traffic_make(traffic, peer, tag, bytes, offset, CONF_SENDS,
                 peer->ctx->subject->on_device & CONF_SENDS);
    pattern_fill(traffic->data, bytes, pattern);
    place_put(&traffic->place);
}

void traffic_host_send_make(struct traffic *traffic, struct conf_peer *peer, uint64_t tag,
                            size_t bytes, unsigned offset, uint64_t pattern)
{
    traffic_make(traffic, peer, tag, bytes, offset, CONF_SENDS, false);
    pattern_fill(traffic->data, bytes, pattern);
}

void traffic_borrow_make(struct traffic *traffic, struct conf_peer *peer, uint64_t tag,
                         size_t bytes)
{
    traffic_make(traffic, peer, tag, bytes, 0, CONF_RECEIVES, false);
    traffic->bulk.data = NULL;
    traffic->bulk.mem = NULL;
    traffic->bulk.borrowed = on_borrowed;
}

void traffic_free(struct traffic *traffic)
{
    place_close(&traffic->place);
    traffic->data = NULL;
}

static tryst_status start_raw(struct traffic *traffic)
{
    struct endpoint *ep = traffic->peer->ep;
    const struct transport_ops *ops = traffic->peer->ctx->ops;
    return traffic->is_send ? ops->bulk_send(ep, &traffic->bulk)
                            : ops->bulk_recv(ep, &traffic->bulk);
}

/* As in rendezvous/protocol/recv_run.c: a receive uses a slot where the rail cannot write
 * to its memory. */
static tryst_status start_staged(struct traffic *traffic)
{
    struct conf_peer *peer = traffic->peer;
    struct conf_ctx *ctx = peer->ctx;
    bool direct = ctx->subject->on_device & CONF_RECEIVES;
    if (traffic->is_send)
        return bounce_send(&ctx->bounce, &peer->lane, peer->ep, &traffic->bulk, direct);
    traffic->staged = bounce_is_needed(peer->ep, traffic->bulk.memory);
    tryst_status status = traffic->staged ? TRYST_E_UNSUPPORTED : start_raw(traffic);
    if (status != TRYST_E_UNSUPPORTED)
        return status;
    traffic->staged = true;
    return bounce_recv(&ctx->bounce, &peer->lane, peer->ep, &traffic->bulk);
}

tryst_status traffic_try(struct traffic *traffic)
{
    struct conf_peer *peer = traffic->peer;
    struct conf_ctx *ctx = peer->ctx;
    ctx->inside++;
    tryst_status status = traffic->bulk.memory && !traffic->raw ? start_staged(traffic)
                                                                : start_raw(traffic);
    ctx->inside--;
    if (status == TRYST_AGAIN)
        ctx->again_count++;
    peer->bulk_live += status == TRYST_OK;
    return status;
}

void traffic_start(struct traffic *traffic)
{
    tryst_status status;
    CONF_WAIT(traffic->peer->ctx, (status = traffic_try(traffic)) != TRYST_AGAIN);
    CONF_EQUAL(traffic->peer->ctx, status, TRYST_OK);
}

/* A piece that is being read: where it goes, and how many bytes were asked for. */
struct piece {
    struct traffic *traffic;
    uint8_t *to;
    size_t bytes;
    int used;
};

static void piece_use(void *arg, const void *data, size_t bytes)
{
    struct piece *piece = arg;
    CONF_EQUAL(piece->traffic->peer->ctx, bytes, piece->bytes);
    memcpy(piece->to, data, bytes);
    piece->used++;
}

tryst_status traffic_read(struct traffic *traffic, size_t at, size_t bytes)
{
    struct conf_ctx *ctx = traffic->peer->ctx;
    struct piece piece = {.traffic = traffic, .to = traffic->data + at, .bytes = bytes};
    CONF_CHECK(ctx, traffic->borrowed);
    ctx->inside++;
    tryst_status status = ctx->ops->bulk_read(traffic->peer->ep, &traffic->bulk, at,
                                              bytes, piece_use, &piece);
    ctx->inside--;
    CONF_EQUAL(ctx, piece.used, status == TRYST_OK);
    CONF_CHECK(ctx, status == TRYST_OK || status == TRYST_AGAIN ||
                        status == TRYST_E_PEER || status == TRYST_E_NOMEM);
    traffic->borrowed = status == TRYST_OK;
    return status;
}

tryst_status traffic_return(struct traffic *traffic)
{
    struct conf_ctx *ctx = traffic->peer->ctx;
    CONF_CHECK(ctx, traffic->borrowed);
    ctx->inside++;
    tryst_status status = ctx->ops->bulk_return(traffic->peer->ep, &traffic->bulk);
    ctx->inside--;
    CONF_CHECK(ctx, status == TRYST_OK || status == TRYST_E_PEER);
    traffic->borrowed = false;
    if (status == TRYST_OK)
        traffic_end(traffic, TRYST_OK, traffic->got);
    return status;
}

void traffic_cancel(struct traffic *traffic)
{
    struct conf_peer *peer = traffic->peer;
    traffic->canceled = true;
    peer->ctx->inside++;
    if (traffic->staged)
        bounce_cancel(peer->ep, &traffic->bulk);
    else
        peer->ctx->ops->bulk_cancel(peer->ep, &traffic->bulk);
    peer->ctx->inside--;
}

static void check_bytes(struct traffic *traffic, size_t from, size_t to, const char *what)
{
    for (size_t i = from; i < to; i++)
        if (traffic->place.view[i] != TRAFFIC_UNTOUCHED)
            CONF_FAIL(traffic->peer->ctx,
                      "tag %llu, %zu bytes: byte %lld %s was overwritten with 0x%02x",
                      (unsigned long long)traffic->tag, traffic->bytes,
                      (long long)(traffic->place.view + i - traffic->data), what,
                      traffic->place.view[i]);
}

/* Check the border first, because this copies device memory into the view. */
static void check_border(struct traffic *traffic)
{
    size_t begin = (size_t)(traffic->data - traffic->place.view);
    place_get(&traffic->place);
    check_bytes(traffic, 0, begin, "before the buffer");
    check_bytes(traffic, begin + traffic->bytes, traffic->place.bytes,
                "behind the buffer");
}

void traffic_check_either(struct traffic *traffic, uint64_t pattern)
{
    struct conf_ctx *ctx = traffic->peer->ctx;
    CONF_EQUAL(ctx, traffic->done, 1);
    check_border(traffic);
    if (traffic->is_send || traffic->status != TRYST_OK)
        return;
    size_t at = pattern_differs(traffic->data, traffic->got, pattern);
    if (at != traffic->got)
        CONF_FAIL(ctx,
                  "tag %llu: byte %zu of %zu is wrong (0x%02x), and it completed with OK",
                  (unsigned long long)traffic->tag, at, traffic->got, traffic->data[at]);
}

void traffic_check(struct traffic *traffic, uint64_t pattern)
{
    struct conf_ctx *ctx = traffic->peer->ctx;
    CONF_EQUAL(ctx, traffic->status, TRYST_OK);
    if (!traffic->is_send)
        CONF_EQUAL(ctx, traffic->got, traffic->bytes);
    traffic_check_either(traffic, pattern);
}

void traffic_check_untouched(struct traffic *traffic)
{
    check_border(traffic);
    size_t begin = (size_t)(traffic->data - traffic->place.view);
    check_bytes(traffic, begin, begin + traffic->bytes, "of the buffer");
}

void traffic_recycle(struct traffic *traffic, uint64_t pattern)
{
    pattern_fill(traffic->data, traffic->bytes, pattern);
    place_put(&traffic->place);
}

void traffic_check_recycled(struct traffic *traffic, uint64_t pattern)
{
    place_get(&traffic->place);
    size_t at = pattern_differs(traffic->data, traffic->bytes, pattern);
    if (at != traffic->bytes)
        CONF_FAIL(traffic->peer->ctx,
                  "tag %llu: byte %zu was written after the endpoint had closed",
                  (unsigned long long)traffic->tag, at);
}

void signal_add(struct conf_ctx *ctx, unsigned word, uint64_t by)
{
    atomic_fetch_add(&ctx->shared->words[word], by);
}

void signal_wait(struct conf_ctx *ctx, unsigned word, uint64_t at_least)
{
    CONF_WAIT(ctx, atomic_load(&ctx->shared->words[word]) >= at_least);
}

size_t size_log_uniform(struct random *random, size_t most)
{
    unsigned bits = 64 - (unsigned)__builtin_clzll(most);
    size_t size = (size_t)1 << random_range(random, bits);
    size += random_range(random, size);
    return size > most ? most : size;
}
