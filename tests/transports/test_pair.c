/* SPDX-License-Identifier: Apache-2.0 */
/* The common behaviour of shm and self, both ends in one thread: frames, room, every bulk
 * mechanism, cancel, mismatch, unexpected bulk, close in flight. Each test runs for self,
 * for its loopback, and for shm by map, by process_vm_readv, by the stage and through the
 * ring. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/memory/alloc.h"
#include "core/os/random.h"
#include "pair_pump.h"
#include "support/descriptors.h"
#include "transports/memory/memory.h"

struct variant {
    const char *name;
    const struct transport_ops *ops;
    uint64_t mech;
    bool loopback;
    bool use_mem; /* bulk from tryst_mem_alloc memory */
    const char *text;
};

static const struct variant variants[] = {
    {"self", &transport_self, 0, false, false, "self"},
    {"loopback", &transport_self, 0, true, false, "loopback"},
    {"map", &transport_shm, 0, false, true, "map+cma: process_vm_readv verified"},
    {"cma", &transport_shm, 2, false, true, "cma: process_vm_readv verified"},
    {"stage", &transport_shm, 3, false, true, "stage: as TRYST_SHM_MECH requires"},
    {"ring", &transport_shm, 4, false, true, "ring: as TRYST_SHM_MECH requires"},
};

struct fixture {
    const struct variant *variant;
    struct node a, b;
    struct node *to; /* the destination of a's sends */
    struct memory_cache *cache;
    uint64_t alive; /* allocations before the test */
    int descriptors;
};

static const struct variant *variant;

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    f->variant = variant;
    f->descriptors = descriptors_open();
    f->alive = alloc_live_count();
    f->a.mech = f->b.mech = variant->mech;
    if (variant->loopback)
        node_loopback(&f->a, variant->ops);
    else
        nodes_connect(&f->a, &f->b, variant->ops);
    f->to = variant->loopback ? &f->a : &f->b;
    CHECK(memory_cache_open(NULL, NULL, &f->cache) == TRYST_OK);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    memory_cache_close(f->cache);
    node_close(&f->a);
    if (!f->variant->loopback)
        node_close(&f->b);
    CHECK(alloc_live_count() == f->alive);
    CHECK(descriptors_open() == f->descriptors);
    free(f);
    return 0;
}

static struct node *other(struct fixture *f)
{
    return f->variant->loopback ? NULL : &f->b;
}

/* --- frames --- */

struct frame_log {
    uint64_t next;
    bool wrong;
};

static size_t frame_length(uint64_t n)
{
    return n % 5 == 0 ? 4096 : 8 + n % 120;
}

static void frame_check(struct node *node, const void *data, size_t bytes)
{
    struct frame_log *log = node->arg;
    uint64_t number;
    memcpy(&number, data, 8);
    if (number != log->next || bytes != frame_length(number) ||
        ((uintptr_t)data & 7) != 0 ||
        !pattern_is((const uint8_t *)data + 8, bytes - 8, number))
        log->wrong = true;
    log->next++;
}

static void test_text(void **state)
{
    struct fixture *f = *state;
    assert_non_null(strstr(f->a.text, f->variant->text));
    assert_true(f->a.rail->frame_max >= TRANSPORT_FRAME_BYTES &&
                f->a.rail->tag_bits >= 48);
}

static void test_frames(void **state)
{
    struct fixture *f = *state;
    struct frame_log log = {0};
    uint8_t frame[4096];
    f->to->on_frame = frame_check;
    f->to->arg = &log;
    for (uint64_t n = 0; n < 5000;) {
        memcpy(frame, &n, 8);
        pattern_fill(frame + 8, frame_length(n) - 8, n);
        tryst_status status =
            transport_frame_send(f->a.ops, f->a.ep, frame, frame_length(n));
        if (status == TRYST_OK) {
            n++;
        } else {
            assert_int_equal(status, TRYST_AGAIN);
            nodes_settle(f->to, NULL, 1);
        }
    }
    for (unsigned i = 0; i < 200 && log.next < 5000; i++)
        nodes_settle(f->to, NULL, 1);
    assert_int_equal(log.next, 5000);
    assert_false(log.wrong);
}

/* --- bulk --- */

struct transfer {
    struct test_bulk send, recv;
    void *from, *to;
    struct tryst_mem *mem;
    size_t bytes;
};

static void transfer_init(struct fixture *f, struct transfer *t, uint64_t tag,
                          size_t bytes, unsigned shift)
{
    memset(t, 0, sizeof *t);
    t->bytes = bytes;
    t->to = malloc(bytes + 16 + shift);
    memset(t->to, 0xee, bytes + 16 + shift);
    if (f->variant->use_mem) {
        CHECK(memory_alloc(f->cache, bytes + 1 + shift, TRYST_MEMORY_HOST, 0, &t->mem) ==
              TRYST_OK);
        t->from = t->mem->data;
    } else {
        t->from = malloc(bytes + 1 + shift);
    }
    pattern_fill((uint8_t *)t->from + shift, bytes, tag);
    test_bulk_init(&t->send, tag, (uint8_t *)t->from + shift, bytes, t->mem);
    test_bulk_init(&t->recv, tag, (uint8_t *)t->to + shift, bytes, NULL);
}

static void transfer_free(struct transfer *t)
{
    if (t->mem)
        memory_release(t->mem);
    else
        free(t->from);
    free(t->to);
}

static void transfer_check(struct transfer *t)
{
    assert_int_equal(t->send.done_count, 1);
    assert_int_equal(t->recv.done_count, 1);
    assert_int_equal(t->send.status, TRYST_OK);
    assert_int_equal(t->recv.status, TRYST_OK);
    assert_int_equal(t->recv.bytes, t->bytes);
    assert_true(pattern_is(t->recv.bulk.data, t->bytes, t->recv.bulk.tag));
    for (unsigned i = 0; i < 16; i++)
        assert_int_equal(((uint8_t *)t->recv.bulk.data)[t->bytes + i], 0xee);
}

static tryst_status send_start(struct fixture *f, struct transfer *t)
{
    tryst_status status = f->a.ops->bulk_send(f->a.ep, &t->send.bulk);
    assert_false(t->send.done); /* never from inside the call */
    return status;
}

static tryst_status recv_start(struct fixture *f, struct transfer *t)
{
    return f->a.ops->bulk_recv(f->to->ep, &t->recv.bulk);
}

static void test_bulk_sizes(void **state)
{
    struct fixture *f = *state;
    static const size_t sizes[] = {
        0,    1,    7,     8,     1024,    1025,          4096,
        4097, 6999, 65536, 99999, 1 << 20, (1 << 20) + 1, 5000001};
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (unsigned shift = 0; shift < 2; shift++) {
            struct transfer t;
            transfer_init(f, &t, 1000 + i, sizes[i], shift);
            assert_int_equal(recv_start(f, &t), TRYST_OK);
            assert_int_equal(send_start(f, &t), TRYST_OK);
            assert_true(nodes_until(&f->a, other(f), &t.recv.done, 10000));
            assert_true(nodes_until(&f->a, other(f), &t.send.done, 10000));
            transfer_check(&t);
            transfer_free(&t);
        }
    }
    assert_int_equal(f->to->unexpected, 0);
}

/* Many at once; either side may refuse. Frames in between must overtake. */
static void test_bulk_many(void **state)
{
    struct fixture *f = *state;
    enum { COUNT = 200 };
    struct transfer *t = calloc(COUNT, sizeof *t);
    struct random random;
    random_seed(&random, 5);
    for (unsigned i = 0; i < COUNT; i++) {
        transfer_init(f, &t[i], 70 + i, random_range(&random, 40000), 0);
        assert_int_equal(recv_start(f, &t[i]), TRYST_OK);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        tryst_status status;
        while ((status = send_start(f, &t[i])) == TRYST_AGAIN)
            nodes_settle(&f->a, other(f), 1);
        assert_int_equal(status, TRYST_OK);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        assert_true(nodes_until(&f->a, other(f), &t[i].recv.done, 10000));
        assert_true(nodes_until(&f->a, other(f), &t[i].send.done, 10000));
        transfer_check(&t[i]);
        transfer_free(&t[i]);
    }
    free(t);
}

static tryst_status arm(struct node *node)
{
    return node->ops->arm(node->rail);
}

/* A frame sent behind 32 MiB of bulk arrives before the bulk. */
static void test_frame_overtakes_bulk(void **state)
{
    struct fixture *f = *state;
    struct transfer t;
    transfer_init(f, &t, 9, 32 << 20, 0);
    assert_int_equal(recv_start(f, &t), TRYST_OK);
    assert_int_equal(send_start(f, &t), TRYST_OK);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(transport_frame_send(f->a.ops, f->a.ep, "urgent!", 8), TRYST_OK);
    nodes_settle(f->to, NULL, 4);
    assert_int_equal(f->to->frames, 3);
    assert_false(t.recv.done);
    assert_true(nodes_until(&f->a, other(f), &t.recv.done, 20000));
    assert_true(nodes_until(&f->a, other(f), &t.send.done, 20000));
    transfer_check(&t);
    transfer_free(&t);
}

/* By the stage the sender copies the bytes before it offers them: let it. */
static void stage_settle(struct fixture *f)
{
    if (strcmp(f->variant->name, "stage") != 0)
        return;
    assert_int_equal(f->a.doorbells, 0);
    assert_int_equal(arm(&f->a), TRYST_AGAIN);
    nodes_settle(&f->a, NULL, 30);
}

/* Of bulk that the receiver reads, the more urgent goes first, piece by piece, whatever
 * came first; equally urgent bulk goes in order of arrival. Bulk through the ring stays
 * in the sender's order. */
static void test_urgent_first(void **state)
{
    struct fixture *f = *state;
    static const uint64_t rank[] = {5, 5, 3}; /* of the sends */
    struct transfer t[3];
    bool in_order = strcmp(f->variant->name, "ring") == 0;
    for (int i = 0; i < 3; i++) {
        transfer_init(f, &t[i], 10 + (uint64_t)i, 2 << 20, 0);
        t[i].send.bulk.urgency = (struct urgency){rank[i], 0, 0};
        t[i].recv.bulk.urgency = (struct urgency){5, 0, (uint64_t)i};
        assert_int_equal(recv_start(f, &t[i]), TRYST_OK);
        assert_int_equal(send_start(f, &t[i]), TRYST_OK);
    }
    assert_true(nodes_until(&f->a, other(f), &t[in_order ? 0 : 2].recv.done, 5000));
    assert_false(t[1].recv.done || t[in_order ? 2 : 0].recv.done);
    assert_true(nodes_until(&f->a, other(f), &t[in_order ? 1 : 0].recv.done, 5000));
    assert_false(t[in_order ? 2 : 1].recv.done);
    for (int i = 0; i < 3; i++) {
        assert_true(nodes_until(&f->a, other(f), &t[i].recv.done, 5000));
        assert_true(nodes_until(&f->a, other(f), &t[i].send.done, 5000));
        transfer_check(&t[i]);
        transfer_free(&t[i]);
    }
}

static void test_cancel(void **state)
{
    struct fixture *f = *state;
    struct transfer t;
    transfer_init(f, &t, 42, 100000, 0);
    assert_int_equal(recv_start(f, &t), TRYST_OK);
    f->a.ops->bulk_cancel(f->to->ep, &t.recv.bulk);
    assert_false(t.recv.done);
    assert_true(nodes_until(f->to, NULL, &t.recv.done, 1000));
    assert_int_equal(t.recv.status, TRYST_E_CANCELED);
    /* the message arrives after the cancel: it is dropped and reported, and the send
     * completes */
    assert_int_equal(send_start(f, &t), TRYST_OK);
    assert_true(nodes_until(&f->a, other(f), &t.send.done, 5000));
    nodes_settle(&f->a, other(f), 50);
    assert_int_equal(t.send.status, TRYST_OK);
    assert_int_equal(f->to->unexpected, 1);
    assert_int_equal(f->to->last_tag, 42);
    assert_int_equal(t.recv.done_count, 1);
    for (unsigned i = 0; i < 100000; i++)
        assert_int_equal(((uint8_t *)t.to)[i], 0xee);
    transfer_free(&t);
}

static void test_mismatch(void **state)
{
    struct fixture *f = *state;
    static const size_t sizes[] = {100, 100000};
    for (unsigned i = 0; i < 2; i++) {
        struct transfer t;
        transfer_init(f, &t, 5, sizes[i], 0);
        t.recv.bulk.bytes = sizes[i] - 1;
        assert_int_equal(recv_start(f, &t), TRYST_OK);
        assert_int_equal(send_start(f, &t), TRYST_OK);
        assert_true(nodes_until(&f->a, other(f), &t.recv.done, 5000));
        assert_true(nodes_until(&f->a, other(f), &t.send.done, 5000));
        assert_int_equal(t.recv.status, TRYST_E_MISMATCH);
        assert_int_equal(((uint8_t *)t.to)[0], 0xee);
        transfer_free(&t);
    }
    /* the next message of the right size arrives; for a shorter one, recv.bytes is its
     * length */
    struct transfer t;
    transfer_init(f, &t, 5, 50000, 0);
    test_bulk_init(&t.send, 5, t.from, 49000, t.mem);
    assert_int_equal(recv_start(f, &t), TRYST_OK);
    assert_int_equal(send_start(f, &t), TRYST_OK);
    assert_true(nodes_until(&f->a, other(f), &t.recv.done, 5000));
    assert_true(nodes_until(&f->a, other(f), &t.send.done, 5000));
    assert_int_equal(t.recv.status, TRYST_OK);
    assert_int_equal(t.recv.bytes, 49000);
    transfer_free(&t);
}

static void test_posted_max(void **state)
{
    struct fixture *f = *state;
    uint32_t max = f->a.rail->posted_max;
    struct test_bulk *bulks = calloc(max + 1, sizeof *bulks);
    for (uint32_t i = 0; i <= max; i++) {
        test_bulk_init(&bulks[i], i, NULL, 0, NULL);
        tryst_status status = f->a.ops->bulk_recv(f->to->ep, &bulks[i].bulk);
        assert_int_equal(status, i < max ? TRYST_OK : TRYST_AGAIN);
    }
    f->a.ops->bulk_cancel(f->to->ep, &bulks[3].bulk);
    assert_true(nodes_until(f->to, NULL, &bulks[3].done, 1000));
    assert_int_equal(f->a.ops->bulk_recv(f->to->ep, &bulks[max].bulk), TRYST_OK);
    node_close_ep(f->to);
    for (uint32_t i = 0; i <= max; i++)
        assert_int_equal(bulks[i].done_count, 1);
    free(bulks);
}

/* Close the sender, or the receiver, with work in every stage: every bulk completes once,
 * and its buffer may be freed at once (checked by ASan). */
static void close_in_flight(struct fixture *f, bool sender, unsigned rounds)
{
    enum { COUNT = 8 };
    struct transfer t[COUNT];
    for (unsigned i = 0; i < COUNT; i++) {
        transfer_init(f, &t[i], i, i % 2 ? 1 << 20 : 3000, 0);
        assert_int_equal(recv_start(f, &t[i]), TRYST_OK);
        assert_int_equal(send_start(f, &t[i]), TRYST_OK);
    }
    nodes_settle(&f->a, other(f), rounds);
    node_close_ep(sender ? &f->a : f->to);
    for (unsigned i = 0; i < COUNT; i++) {
        struct test_bulk *mine = sender ? &t[i].send : &t[i].recv;
        assert_int_equal(mine->done_count, 1);
        assert_true(mine->status == TRYST_OK || mine->status == TRYST_E_CANCELED);
        if (sender)
            memset(mine->bulk.data, 0x55, mine->bulk.bytes); /* the caller's again */
    }
    if (!f->variant->loopback) {
        struct node *left = sender ? &f->b : &f->a;
        nodes_settle(left, NULL, 100);
        assert_false(left->failed);
        for (unsigned i = 0; i < COUNT; i++) {
            struct test_bulk *theirs = sender ? &t[i].recv : &t[i].send;
            if (sender && theirs->done && theirs->status == TRYST_OK)
                assert_true(pattern_is(theirs->bulk.data, t[i].bytes, i));
        }
        node_close_ep(left);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        assert_int_equal(t[i].send.done_count, 1);
        assert_int_equal(t[i].recv.done_count, 1);
        transfer_free(&t[i]);
    }
}

static void test_close_sender(void **state)
{
    close_in_flight(*state, true, 3);
}

static void test_close_sender_early(void **state)
{
    close_in_flight(*state, true, 0);
}

static void test_close_receiver(void **state)
{
    close_in_flight(*state, false, 3);
}

static void test_idle_is_idle(void **state)
{
    struct fixture *f = *state;
    nodes_settle(&f->a, other(f), 20);
    assert_int_equal(node_pump(&f->a), 0);
    assert_int_equal(f->a.ops->arm(f->a.rail), TRYST_OK);
    if (f->variant->loopback) {
        assert_int_equal(transport_frame_send(f->a.ops, f->a.ep, "x", 1), TRYST_OK);
        assert_int_equal(f->a.ops->arm(f->a.rail), TRYST_AGAIN);
        return;
    }
    /* asleep: the first frame rings the doorbell, the second does not */
    assert_int_equal(transport_frame_send(f->b.ops, f->b.ep, "x", 1), TRYST_OK);
    assert_int_equal(f->b.doorbells, 1);
    assert_int_equal(transport_frame_send(f->b.ops, f->b.ep, "x", 1), TRYST_OK);
    assert_int_equal(f->b.doorbells, 1);
    assert_int_equal(f->a.ops->arm(f->a.rail), TRYST_AGAIN);
    nodes_settle(&f->a, NULL, 2);
    assert_int_equal(f->a.frames, 2);
    assert_int_equal(transport_frame_send(f->b.ops, f->b.ep, "x", 1), TRYST_OK);
    assert_int_equal(f->b.doorbells, 1); /* awake: no doorbell */
}

/* A sender that sleeps because there is no room is woken when there is room. */
static void test_room_wakes(void **state)
{
    struct fixture *f = *state;
    uint8_t frame[4096] = {0};
    unsigned sent = 0;
    if (f->variant->loopback)
        return;
    while (transport_frame_send(f->a.ops, f->a.ep, frame, sizeof frame) == TRYST_OK)
        sent++;
    assert_true(sent >= 2);
    assert_int_equal(f->a.ops->arm(f->a.rail), TRYST_OK);
    nodes_settle(&f->b, NULL, 5);
    assert_int_equal(f->b.frames, sent);
    assert_int_equal(f->b.doorbells, 1);
    nodes_settle(&f->a, NULL, 2);
    assert_int_equal(transport_frame_send(f->a.ops, f->a.ep, frame, sizeof frame),
                     TRYST_OK);
}

/* --- each store that a sleeper waits for wakes it, or keeps it from sleeping --- */

enum { LARGE = 3 << 20 }; /* more than a ring, and than one piece of a read */

static void until_done(struct fixture *f, struct transfer *t)
{
    assert_true(nodes_until(&f->a, other(f), &t->recv.done, 10000));
    assert_true(nodes_until(&f->a, other(f), &t->send.done, 10000));
    transfer_check(t);
    transfer_free(t);
}

/* A frame that came after the last progress: no sleep. */
static void test_no_sleep_over_a_frame(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(transport_frame_send(f->a.ops, f->a.ep, "x", 1), TRYST_OK);
    assert_int_equal(f->a.doorbells, 0);
    assert_int_equal(arm(f->to), TRYST_AGAIN);
    nodes_settle(f->to, NULL, 2);
    assert_int_equal(f->to->frames, 1);
    assert_int_equal(arm(f->to), TRYST_OK);
}

/* A receiver that sleeps is woken by a bulk, and the sender by its end (or by room in the
 * ring). */
static void test_bulk_wakes(void **state)
{
    struct fixture *f = *state;
    struct transfer t;
    if (f->variant->loopback)
        return;
    transfer_init(f, &t, 5, LARGE, 0);
    assert_int_equal(recv_start(f, &t), TRYST_OK);
    assert_int_equal(arm(&f->b), TRYST_OK);
    assert_int_equal(send_start(f, &t), TRYST_OK);
    stage_settle(f);
    assert_int_equal(f->a.doorbells, 1);
    assert_int_equal(arm(&f->a), TRYST_OK);
    nodes_settle(&f->b, NULL, 100);
    assert_int_equal(f->b.doorbells, 1);
    until_done(f, &t);
}

/* A message that is borrowed is no work: both ends sleep until it is returned. */
static void test_sleep_while_borrowed(void **state)
{
    struct fixture *f = *state;
    size_t bytes = 100000;
    uint8_t *data = malloc(bytes);
    struct test_bulk send, recv;
    if (!f->to->ep->borrows) {
        free(data);
        skip();
    }
    pattern_fill(data, bytes, 8);
    test_borrow_init(&recv, 8, bytes);
    test_bulk_init(&send, 8, data, bytes, NULL);
    assert_int_equal(f->to->ops->bulk_recv(f->to->ep, &recv.bulk), TRYST_OK);
    assert_int_equal(f->a.ops->bulk_send(f->a.ep, &send.bulk), TRYST_OK);
    assert_true(nodes_until(&f->a, other(f), &recv.borrowed, 1000));
    nodes_settle(&f->a, other(f), 3);
    assert_int_equal(arm(&f->a), TRYST_OK);
    assert_int_equal(arm(f->to), TRYST_OK);
    assert_int_equal(test_borrow_read(f->to, &recv, 1, bytes - 1, 8), TRYST_OK);
    assert_false(send.done);
    assert_int_equal(f->to->ops->bulk_return(f->to->ep, &recv.bulk), TRYST_OK);
    assert_int_equal(arm(&f->a), TRYST_AGAIN);
    if (!f->variant->loopback)
        assert_int_equal(f->b.doorbells, 1);
    assert_true(nodes_until(&f->a, other(f), &send.done, 1000));
    free(data);
}

/* Bulk that came, that is being read, or that ended (or got room in the ring) after the
 * last progress: no sleep. */
static void test_no_sleep_over_bulk(void **state)
{
    struct fixture *f = *state;
    struct transfer t;
    transfer_init(f, &t, 6, LARGE, 0);
    assert_int_equal(recv_start(f, &t), TRYST_OK);
    assert_int_equal(send_start(f, &t), TRYST_OK);
    stage_settle(f);
    assert_int_equal(arm(f->to), TRYST_AGAIN);
    if (!f->variant->loopback) {
        nodes_settle(&f->b, NULL, 2);
        if (f->variant->mech != 4) /* a read in pieces */
            assert_int_equal(arm(&f->b), TRYST_AGAIN);
        nodes_settle(&f->b, NULL, 100);
        assert_int_equal(f->b.doorbells, 0);
        assert_int_equal(arm(&f->a), TRYST_AGAIN);
    }
    until_done(f, &t);
}

/* Room for the frame that did not fit came after the last progress: no sleep. */
static void test_no_sleep_over_room(void **state)
{
    struct fixture *f = *state;
    uint8_t frame[4096] = {0};
    if (f->variant->loopback)
        return;
    while (transport_frame_send(f->a.ops, f->a.ep, frame, sizeof frame) == TRYST_OK)
        ;
    nodes_settle(&f->b, NULL, 5);
    assert_int_equal(f->b.doorbells, 0);
    assert_int_equal(arm(&f->a), TRYST_AGAIN);
    assert_int_equal(arm(&f->a), TRYST_OK); /* reported once */
    assert_int_equal(transport_frame_send(f->a.ops, f->a.ep, frame, sizeof frame),
                     TRYST_OK);
}

/* A bulk that was cancelled completes in the next progress: no sleep before. */
static void test_no_sleep_over_an_end(void **state)
{
    struct fixture *f = *state;
    struct test_bulk bulk;
    uint8_t byte;
    test_bulk_init(&bulk, 9, &byte, 1, NULL);
    assert_int_equal(f->to->ops->bulk_recv(f->to->ep, &bulk.bulk), TRYST_OK);
    f->to->ops->bulk_cancel(f->to->ep, &bulk.bulk);
    assert_int_equal(arm(f->to), TRYST_AGAIN);
    nodes_settle(f->to, NULL, 1);
    assert_int_equal(bulk.status, TRYST_E_CANCELED);
    assert_int_equal(arm(f->to), TRYST_OK);
}

/* An endpoint that is closed ends in a progress to come: no sleep before. */
static void test_no_sleep_over_a_close(void **state)
{
    struct fixture *f = *state;
    f->a.ops->ep_close(f->a.ep);
    assert_int_equal(arm(&f->a), TRYST_AGAIN);
    assert_true(nodes_until(&f->a, NULL, &f->a.closed, 20000));
}

/* Two peers send to one rail, and one endpoint closes while both bulks are read: the
 * other's arrives. */
static void test_close_beside_another(void **state)
{
    struct fixture *f = *state;
    struct node c = {.mech = f->variant->mech};
    struct node d = {.mech = f->variant->mech, .shares_rail = true, .rail = f->b.rail};
    struct transfer first, second;
    if (f->variant->loopback)
        return;
    nodes_link(&c, &d, f->variant->ops);
    c.params.nonce = d.params.peer_nonce = 0x3333;
    d.params.nonce = c.params.peer_nonce = 0x4444;
    assert_true(node_open(&c) && node_open(&d));
    assert_true(nodes_until(&c, &d, &c.ready, 5000) &&
                nodes_until(&c, &d, &d.ready, 5000));
    transfer_init(f, &first, 1, LARGE, 0);
    transfer_init(f, &second, 2, LARGE, 0);
    assert_int_equal(recv_start(f, &first), TRYST_OK);
    assert_int_equal(d.ops->bulk_recv(d.ep, &second.recv.bulk), TRYST_OK);
    assert_int_equal(send_start(f, &first), TRYST_OK);
    assert_int_equal(c.ops->bulk_send(c.ep, &second.send.bulk), TRYST_OK);
    nodes_settle(&f->b, &d, 2);
    assert_true(!first.recv.done && !second.recv.done);
    node_close_ep(&f->b);
    assert_int_equal(first.recv.status, TRYST_E_CANCELED);
    assert_true(nodes_until(&c, &d, &second.recv.done, 10000));
    assert_int_equal(second.recv.status, TRYST_OK);
    assert_true(nodes_until(&c, &d, &second.send.done, 10000));
    transfer_check(&second);
    transfer_free(&second);
    node_close_ep(&f->a);
    transfer_free(&first);
    node_close(&d);
    node_close(&c);
}

#define TEST(name)                         \
    {                                      \
#name, name, setup, teardown, NULL \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_text),
        TEST(test_frames),
        TEST(test_bulk_sizes),
        TEST(test_bulk_many),
        TEST(test_frame_overtakes_bulk),
        TEST(test_urgent_first),
        TEST(test_cancel),
        TEST(test_mismatch),
        TEST(test_posted_max),
        TEST(test_close_sender),
        TEST(test_close_sender_early),
        TEST(test_close_receiver),
        TEST(test_idle_is_idle),
        TEST(test_room_wakes),
        TEST(test_no_sleep_over_a_frame),
        TEST(test_bulk_wakes),
        TEST(test_sleep_while_borrowed),
        TEST(test_no_sleep_over_bulk),
        TEST(test_no_sleep_over_room),
        TEST(test_no_sleep_over_an_end),
        TEST(test_no_sleep_over_a_close),
        TEST(test_close_beside_another),
    };
    int failed = 0;
    for (unsigned i = 0; i < sizeof variants / sizeof variants[0]; i++) {
        variant = &variants[i];
        failed += cmocka_run_group_tests_name(variant->name, tests, NULL, NULL);
    }
    return failed;
}
