/* SPDX-License-Identifier: Apache-2.0 */
/* Behaviour that only self has: finding the other end in this process, refusing a wrong
 * one, and a reader beside a sender that closes. For traffic, sleep and closing see
 * test_pair.c and test_pair_ends.c. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/memory/alloc.h"
#include "pair_pump.h"
#include "support/descriptors.h"

static void both_ready(struct node *a, struct node *b, tryst_status status)
{
    assert_true(nodes_until(a, b, &a->ready, 2000) && nodes_until(a, b, &b->ready, 2000));
    assert_int_equal(a->ready_status, status);
    assert_int_equal(b->ready_status, status);
    node_close(a);
    node_close(b);
}

static void test_probe(void **state)
{
    char text[TRANSPORT_TEXT_MAX];
    assert_int_equal(transport_self.probe(NULL, text), TRYST_OK);
    assert_true(strlen(text) > 0);
}

/* The responder expects another nonce, so the area belongs to another pair. */
static void test_wrong_nonce(void **state)
{
    struct node a = {0}, b = {0};
    uint64_t alive = alloc_live_count();
    nodes_link(&a, &b, &transport_self);
    a.params.peer_nonce = 0x3333; /* the nonce that a writes into the area */
    assert_true(node_open(&a) && node_open(&b));
    nodes_settle(&a, &b, 20);
    assert_true(b.ready && b.ready_status == TRYST_E_UNREACHABLE);
    node_close(&a);
    node_close(&b);
    assert_int_equal(alloc_live_count(), alive);
}

static void child_answers(struct node *node)
{
    CHECK(node_open(node));
    CHECK(nodes_until(node, NULL, &node->ready, 5000));
    CHECK(node->ready_status == TRYST_E_UNREACHABLE);
    while (!node->link_is_closed)
        node_pump(node);
    node_close(node);
}

/* The peer is another process: its table does not hold the area. */
static void test_other_process(void **state)
{
    struct node a = {0}, b = {0};
    pid_t child = nodes_fork(&a, &b, &transport_self, child_answers);
    assert_true(node_open(&a));
    assert_true(nodes_until(&a, NULL, &a.ready, 5000));
    assert_int_equal(a.ready_status, TRYST_E_UNREACHABLE);
    node_close(&a);
    assert_int_equal(child_wait(child), 0);
}

/* The initiator closes before its area is claimed; a late claim fails. */
static void test_closed_before_claim(void **state)
{
    struct node a = {0}, b = {0};
    uint64_t alive = alloc_live_count();
    nodes_link(&a, &b, &transport_self);
    assert_true(node_open(&a));
    nodes_settle(&a, NULL, 3);
    node_close_ep(&a);
    assert_true(node_open(&b));
    assert_true(nodes_until(&b, NULL, &b.ready, 2000));
    assert_int_equal(b.ready_status, TRYST_E_UNREACHABLE);
    node_close(&b);
    node_close(&a);
    assert_int_equal(alloc_live_count(), alive);
}

static void test_allocation_failures(void **state)
{
    for (uint64_t nth = 1;; nth++) {
        uint64_t alive = alloc_live_count();
        struct node a = {0}, b = {0};
        nodes_link(&a, &b, &transport_self);
        alloc_fail_at(nth);
        if (node_open(&a) && node_open(&b)) {
            nodes_settle(&a, &b, 30);
            assert_true(a.ready && b.ready);
            assert_int_equal(a.ready_status, b.ready_status);
        }
        node_close(&a);
        node_close(&b);
        assert_int_equal(alloc_live_count(), alive);
        if (!alloc_fail_off())
            break;
    }
}

static void test_stray_messages(void **state)
{
    struct node a = {0}, b = {0};
    int descriptors = descriptors_open();
    uint8_t junk[200] = {1};
    nodes_link(&a, &b, &transport_self);
    assert_true(node_open(&a) && node_open(&b));
    for (size_t bytes = 0; bytes < sizeof junk; bytes += 8) {
        a.ops->ep_message(a.ep, junk, bytes, -1);
        b.ops->ep_message(b.ep, junk, bytes, -1);
    }
    both_ready(&a, &b, TRYST_OK);
    assert_int_equal(descriptors_open(), descriptors);
}

/* --- a reader beside a sender that closes --- */

enum { LENT_BYTES = 100000, ROUNDS = 100 };

static _Atomic bool is_read; /* the reader has read once */

/* Read the sender's message again and again until the sender has revoked it. */
static void *reader_run(void *arg)
{
    struct node *node = arg;
    struct test_bulk recv;
    tryst_status status = TRYST_OK;
    CHECK(node_open(node) && nodes_until(node, NULL, &node->ready, 20000));
    test_borrow_init(&recv, 5, LENT_BYTES);
    CHECK(node->ops->bulk_recv(node->ep, &recv.bulk) == TRYST_OK);
    CHECK(transport_frame_send(node->ops, node->ep, "go", 2) == TRYST_OK);
    CHECK(nodes_until(node, NULL, &recv.borrowed, 20000));
    while (status == TRYST_OK) {
        status = test_borrow_read(node, &recv, 0, LENT_BYTES, 5);
        atomic_store_explicit(&is_read, true, memory_order_relaxed);
    }
    CHECK(status == TRYST_E_PEER);
    CHECK(nodes_until(node, NULL, &recv.done, 20000) && recv.status == TRYST_E_PEER);
    node_close(node);
    return NULL;
}

/* Whatever the reader has read with TRYST_OK are the sender's bytes, though the sender
 * overwrites them right after its `closed`. */
static void test_closed_while_read(void **state)
{
    uint8_t *data = malloc(LENT_BYTES);
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct node a = {0}, b = {0};
        struct test_bulk send;
        pthread_t reader;
        atomic_store(&is_read, false);
        pattern_fill(data, LENT_BYTES, 5);
        nodes_link(&a, &b, &transport_self);
        assert_int_equal(pthread_create(&reader, NULL, reader_run, &b), 0);
        assert_true(node_open(&a) && nodes_until(&a, NULL, &a.ready, 20000));
        while (a.frames == 0)
            node_pump(&a);
        test_bulk_init(&send, 5, data, LENT_BYTES, NULL);
        assert_int_equal(a.ops->bulk_send(a.ep, &send.bulk), TRYST_OK);
        while (!atomic_load_explicit(&is_read, memory_order_relaxed))
            node_pump(&a);
        node_close_ep(&a);
        memset(data, 0x55, LENT_BYTES);
        assert_int_equal(send.done_count, 1);
        assert_int_equal(send.status, TRYST_E_CANCELED);
        pthread_join(reader, NULL);
        node_close(&a);
    }
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_probe),
        cmocka_unit_test(test_wrong_nonce),
        cmocka_unit_test(test_other_process),
        cmocka_unit_test(test_closed_before_claim),
        cmocka_unit_test(test_allocation_failures),
        cmocka_unit_test(test_stray_messages),
        cmocka_unit_test(test_closed_while_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
