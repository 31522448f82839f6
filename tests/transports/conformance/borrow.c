/* SPDX-License-Identifier: Apache-2.0 */
/* Receives that borrow: rank 1 sends, rank 0 reads the bytes where they lie and returns
 * them. Over a transport without such receives the endpoints must report this, and the
 * cases end there. */
#include "cases.h"

#include <stdlib.h>
#include <string.h>

/* Words of the shared mapping. */
enum {
    POSTED = 10, /* receives that rank 0 has posted */
    HERE,        /* messages that rank 0 has borrowed, or that have ended */
    HELD,        /* messages of which rank 1 has seen that they are not done */
    ENDED,       /* sends that rank 1 has ended */
    BORROWS      /* 1: rank 0's endpoint does not borrow; 2: it does */
};

/* Above this a message of host memory is offered in place by each mechanism. */
enum { BY_RING_MAX = 4096 };

/* True if the subject's ranks can read each other's memory, as the endpoint reports. */
static bool must_borrow(const struct conf_peer *peer)
{
    const char *transport = peer->ctx->subject->transport;
    return strcmp(transport, "self") == 0 ||
           (strcmp(transport, "shm") == 0 && !strstr(peer->text, "ring"));
}

/* True if a send of `bytes` bytes surely stays with rank 1 until it is returned. */
static bool is_in_place(const struct conf_peer *peer, size_t bytes)
{
    const struct conf_subject *subject = peer->ctx->subject;
    bool is_region = subject->regions && !getenv("TRYST_FAULT"); /* `unregistered` */
    return bytes > BY_RING_MAX && !subject->on_device &&
           (is_region || strcmp(subject->transport, "self") == 0 ||
            strstr(peer->text, "process_vm_readv verified"));
}

/* Begin a case of two ranks. NULL, at both: no receive can borrow. */
static struct conf_peer *borrow_pair(struct conf_ctx *ctx)
{
    struct conf_peer *peer = conf_pair(ctx);
    if (ctx->rank == 0) {
        CONF_CHECK(ctx, peer->ep->borrows || !must_borrow(peer));
        CONF_CHECK(ctx, !peer->ep->borrows || ctx->ops->bulk_return);
        signal_add(ctx, BORROWS, peer->ep->borrows ? 2 : 1);
    }
    signal_wait(ctx, BORROWS, 1);
    if (atomic_load(&ctx->shared->words[BORROWS]) == 2)
        return peer;
    conf_close(ctx);
    return NULL;
}

/* Read a piece; where it must come by copy, wait for that. */
static void piece_read(struct traffic *traffic, size_t at, size_t bytes)
{
    tryst_status status = TRYST_AGAIN;
    while (status == TRYST_AGAIN) {
        CONF_WAIT(traffic->peer->ctx, traffic->borrowed || traffic->done);
        status = traffic_read(traffic, at, bytes);
    }
    CONF_EQUAL(traffic->peer->ctx, status, TRYST_OK);
}

/* Read a borrowed message in pieces, the last one first, and one of them once more. */
static void message_read(struct traffic *traffic)
{
    struct random *random = &traffic->peer->ctx->random;
    size_t left = traffic->got, piece = 0;
    while (left > 0) {
        piece = 1 + random_range(random, left);
        if (piece > TRANSPORT_PIECE_BYTES)
            piece = TRANSPORT_PIECE_BYTES;
        left -= piece;
        piece_read(traffic, left, piece);
    }
    memset(traffic->data, 0, piece);
    piece_read(traffic, 0, piece);
}

/* ---- one message ---- */

static void borrow_send(struct conf_ctx *ctx, struct conf_peer *peer, uint64_t step,
                        size_t bytes, bool fits)
{
    struct traffic send;
    traffic_send_make(&send, peer, step, bytes, step % 8, step);
    signal_wait(ctx, POSTED, step + 1);
    traffic_start(&send);
    signal_wait(ctx, HERE, step + 1);
    if (fits && is_in_place(peer, bytes)) {
        conf_idle(ctx, NS_PER_MS);
        CONF_CHECK(ctx, !send.done); /* the peer has not returned it */
    }
    signal_add(ctx, HELD, 1);
    CONF_WAIT(ctx, send.done);
    traffic_check(&send, 0);
    traffic_free(&send);
}

static void borrow_recv(struct conf_ctx *ctx, struct conf_peer *peer, uint64_t step,
                        size_t bytes, size_t send_bytes)
{
    struct traffic recv;
    traffic_borrow_make(&recv, peer, step, bytes);
    traffic_start(&recv);
    signal_add(ctx, POSTED, 1);
    CONF_WAIT(ctx, recv.borrowed || recv.done);
    if (send_bytes > bytes) {
        CONF_EQUAL(ctx, recv.status, TRYST_E_MISMATCH);
        CONF_CHECK(ctx, recv.done && !recv.borrowed);
        traffic_check_untouched(&recv);
    } else {
        CONF_CHECK(ctx, recv.borrowed);
        CONF_EQUAL(ctx, recv.got, send_bytes);
        message_read(&recv);
    }
    signal_add(ctx, HERE, 1);
    signal_wait(ctx, HELD, step + 1);
    if (!recv.done)
        CONF_EQUAL(ctx, traffic_return(&recv), TRYST_OK);
    conf_idle(ctx, NS_PER_MS / 10); /* `done` does not follow */
    traffic_check_either(&recv, step);
    traffic_free(&recv);
}

/* Sizes that come by the ring and in place; messages shorter and longer than their
 * receives. The sender's `done` comes after the return, not at the offer. */
void body_bulk_borrow(struct conf_ctx *ctx)
{
    static const size_t sizes[][2] = {
        {0, 0},           {1, 1},           {512, 512},         {513, 513},
        {4096, 4096},     {4097, 4097},     {65536, 65536},     {65536, 65535},
        {100, 0},         {100, 101},       {4097, 100},        {131072, 131072},
        {131073, 131073}, {70000, 4000000}, {1000003, 1000003}, {8000000, 3000001}};
    struct conf_peer *peer = borrow_pair(ctx);
    for (uint64_t i = 0; peer && i < sizeof sizes / sizeof sizes[0]; i++) {
        if (ctx->rank == 0)
            borrow_recv(ctx, peer, i, sizes[i][0], sizes[i][1]);
        else
            borrow_send(ctx, peer, i, sizes[i][1], sizes[i][1] <= sizes[i][0]);
    }
    if (peer)
        conf_close(ctx);
}

/* ---- many at once ---- */

enum { MANY = 40 };

static size_t many_bytes(uint64_t i)
{
    static const size_t sizes[] = {300, 3000, 5000, 66000, 300001};
    return sizes[i % 5] + i;
}

static void many_return(struct conf_ctx *ctx, struct traffic *recvs)
{
    bool all = false;
    for (uint64_t i = 0; i < MANY; i++)
        CONF_WAIT(ctx, recvs[i].borrowed);
    for (uint64_t left = MANY; !all;) {
        uint64_t i = random_range(&ctx->random, MANY);
        if (recvs[i].done)
            continue;
        message_read(&recvs[i]);
        CONF_EQUAL(ctx, traffic_return(&recvs[i]), TRYST_OK);
        all = --left == 0;
    }
}

/* Several messages are borrowed at once, and are returned in another order. */
void body_bulk_borrow_many(struct conf_ctx *ctx)
{
    struct conf_peer *peer = borrow_pair(ctx);
    if (!peer)
        return;
    struct traffic *bulks = calloc(MANY, sizeof *bulks);
    for (uint64_t i = 0; i < MANY; i++) {
        if (ctx->rank == 0)
            traffic_borrow_make(&bulks[i], peer, i, many_bytes(i));
        else
            traffic_send_make(&bulks[i], peer, i, many_bytes(i), 0, i);
        if (ctx->rank == 0)
            traffic_start(&bulks[i]);
    }
    if (ctx->rank == 0) {
        signal_add(ctx, POSTED, 1);
        many_return(ctx, bulks);
    } else {
        signal_wait(ctx, POSTED, 1);
        for (uint64_t i = 0; i < MANY; i++)
            traffic_start(&bulks[i]);
    }
    CONF_WAIT(ctx, peer->bulk_live == 0);
    for (uint64_t i = 0; i < MANY; i++) {
        traffic_check(&bulks[i], i);
        traffic_free(&bulks[i]);
    }
    free(bulks);
    conf_close(ctx);
}

/* ---- cancel ---- */

/* Withdraw a receive at some time, or once it is borrowed. `done` follows; the send
 * completes. */
static void borrow_cancel(struct conf_ctx *ctx, struct conf_peer *peer, uint64_t round,
                          size_t bytes)
{
    struct traffic bulk;
    if (ctx->rank == 1) {
        traffic_send_make(&bulk, peer, round, bytes, 0, round);
        signal_wait(ctx, POSTED, round + 1);
        traffic_start(&bulk);
        CONF_WAIT(ctx, bulk.done);
        traffic_free(&bulk);
        return;
    }
    traffic_borrow_make(&bulk, peer, round, bytes);
    traffic_start(&bulk);
    signal_add(ctx, POSTED, 1);
    if (round % 2) {
        CONF_WAIT(ctx, bulk.borrowed);
        if (bytes)
            piece_read(&bulk, bytes - 1, 1);
        CONF_WAIT(ctx, bulk.borrowed);
    }
    uint64_t until = clock_monotonic_ns() + random_range(&ctx->random, 300 * NS_PER_US);
    while (clock_monotonic_ns() < until)
        conf_step(ctx);
    traffic_cancel(&bulk);
    CONF_WAIT(ctx, bulk.done);
    CONF_EQUAL(ctx, bulk.status, TRYST_E_CANCELED);
    traffic_free(&bulk);
}

void body_bulk_borrow_cancel(struct conf_ctx *ctx)
{
    static const size_t sizes[] = {0, 100, 3000, 60000, 1000000};
    struct conf_peer *peer = borrow_pair(ctx);
    for (uint64_t round = 0; peer && round < conf_times(ctx, 80, 20); round++) {
        borrow_cancel(ctx, peer, round, sizes[round % 5]);
        CONF_CHECK(ctx, peer->unexpected_count <= round + 1);
    }
    if (peer)
        conf_close(ctx);
}

/* ---- close ---- */

enum { CLOSE_BYTES = 200000, RECYCLED = 4711 };

/* The sender closes, and overwrites its buffer after `closed`. */
static void close_send(struct conf_ctx *ctx, struct conf_peer *peer, bool first)
{
    struct traffic send;
    traffic_send_make(&send, peer, 1, CLOSE_BYTES, 0, 1);
    signal_wait(ctx, POSTED, 1);
    traffic_start(&send);
    signal_wait(ctx, HERE, 1);
    if (!first)
        CONF_WAIT(ctx, peer->left || peer->link_closed);
    conf_ep_close(peer);
    conf_closed(peer);
    CONF_EQUAL(ctx, send.done, 1);
    traffic_recycle(&send, RECYCLED);
    signal_add(ctx, ENDED, 1);
    conf_barrier(ctx);
    traffic_check_recycled(&send, RECYCLED);
    traffic_free(&send);
}

/* What is read of the sender's memory after its `closed` does not count. */
static void close_recv(struct conf_ctx *ctx, struct conf_peer *peer, bool first)
{
    struct traffic recv;
    tryst_status outcome = TRYST_E_PEER;
    traffic_borrow_make(&recv, peer, 1, CLOSE_BYTES);
    traffic_start(&recv);
    signal_add(ctx, POSTED, 1);
    CONF_WAIT(ctx, recv.borrowed);
    piece_read(&recv, 0, CLOSE_BYTES / 2);
    signal_add(ctx, HERE, 1);
    peer->may_fail = true;
    if (first) {
        conf_ep_close(peer);
        conf_closed(peer);
        CONF_EQUAL(ctx, recv.done, 1);
        CONF_EQUAL(ctx, recv.status, TRYST_E_CANCELED);
    } else {
        signal_wait(ctx, ENDED, 1);
        if (recv.borrowed &&
            traffic_read(&recv, CLOSE_BYTES / 2, CLOSE_BYTES / 2) == TRYST_OK)
            outcome = traffic_return(&recv);
        CONF_CHECK(ctx, outcome == TRYST_E_PEER || !is_in_place(peer, CLOSE_BYTES));
        CONF_WAIT(ctx, recv.done);
        CONF_EQUAL(ctx, recv.status, outcome);
    }
    conf_barrier(ctx);
    traffic_free(&recv);
}

/* Rank 0, rank 1 or both close while a message is borrowed. */
void body_close_borrowed(struct conf_ctx *ctx)
{
    struct conf_peer *peer = borrow_pair(ctx);
    if (!peer)
        return;
    bool first = conf_round % 3 == 2 || conf_round % 3 != (uint64_t)ctx->rank;
    if (ctx->rank == 0)
        close_recv(ctx, peer, first);
    else
        close_send(ctx, peer, first);
    conf_close(ctx);
}
