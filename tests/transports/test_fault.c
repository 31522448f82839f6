/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fault wrapper over self: each fault of the script occurs, and the rest of the
 * contract holds. (The conformance suite runs over the wrapper too.)
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/memory/alloc.h"
#include "fault/fault.h"
#include "pair_pump.h"
#include "transports/memory/memory.h"

static struct fault_script script; /* for rails opened from here on */
static struct transport_ops test_ops;

static tryst_status test_rail_open(const struct rail_params *params, struct rail **rail_p)
{
    return fault_rail_open(&transport_self, &script, params, rail_p);
}

static void pair_open(struct node *a, struct node *b, const char *text)
{
    char why[TRANSPORT_TEXT_MAX];
    assert_int_equal(fault_script_parse(text, &script, why), TRYST_OK);
    test_ops = fault_ops;
    test_ops.rail_open = test_rail_open;
    memset(a, 0, sizeof *a);
    memset(b, 0, sizeof *b);
    nodes_connect(a, b, &test_ops);
}

static tryst_status frame(struct node *node, uint64_t number)
{
    return transport_frame_send(node->ops, node->ep, &number, sizeof number);
}

/* ---- scripts ---- */

static void script_texts(void **state)
{
    static const struct {
        const char *text;
        bool good;
    } rows[] = {
        {"", true},
        {"seed=7", true},
        {"again=0.25,seed=3", true},
        {"again=0", true},
        {"kill=1,", true},
        {"drop_every=2,drop_after=9,silent=4", true},
        {"delay_us=200,reorder=0.5,unregistered=1,rank=0", true},
        {"reorder=1.1", false},
        {"delay_us=10000001", false},
        {"delay_us=1ms", false},
        {"again=1", false},
        {"again=-1", false},
        {"again=nan", false},
        {"again=", false},
        {"kill", false},
        {"kill=x", false},
        {"kill=-1", false},
        {"kill=1x", false},
        {"drop=1", false},
        {"=1", false},
        {",", false},
        {"kill=1,,kill=2", false},
        {"seed= 1", false},
        {"kill=99999999999999999999", false},
        {"drop_every=000000000000000000000000000000000000000000000000000000000000000001",
         false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct fault_script parsed = {.seed = 99};
        char why[TRANSPORT_TEXT_MAX] = "";
        tryst_status status = fault_script_parse(rows[i].text, &parsed, why);
        if (status != (rows[i].good ? TRYST_OK : TRYST_E_CONFIG))
            fail_msg("\"%s\": %d", rows[i].text, status);
        assert_int_equal(why[0] == '\0', rows[i].good);
        if (!rows[i].good)
            assert_int_equal(parsed.seed, 99); /* written on success only */
    }
}

static void script_values(void **state)
{
    struct fault_script parsed;
    char why[TRANSPORT_TEXT_MAX];
    const char *text =
        "seed=7,again=0.25,drop_every=3,drop_after=4,kill=5,silent=6,"
        "mute=1,stuck=1,delay_us=200,reorder=0.5,unregistered=1,rank=8,kill_read=9";
    (void)state;
    assert_int_equal(fault_script_parse(text, &parsed, why), TRYST_OK);
    assert_true(parsed.seed == 7 && parsed.again == 0.25 && parsed.drop_every == 3);
    assert_true(parsed.drop_after == 4 && parsed.kill == 5 && parsed.silent == 6);
    assert_true(parsed.reorder == 0.5 && parsed.unregistered == 1);
    assert_true(parsed.delay_us == 200 && parsed.rank == 8 && parsed.one_rank);
    assert_int_equal(parsed.kill_read, 9);
    assert_int_equal(parsed.mute, 1);
    assert_int_equal(parsed.stuck, 1);
    assert_int_equal(fault_script_parse("rank=0", &parsed, why), TRYST_OK);
    assert_true(parsed.one_rank && parsed.rank == 0);
    assert_int_equal(fault_script_parse("", &parsed, why), TRYST_OK);
    assert_false(parsed.one_rank);
}

/* A refused script gets a text: what is wrong, where, and what is valid. */
static void script_reasons(void **state)
{
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"kill=3,oops=1",
         "character 8: \"oops\" is not one of seed, rank, again, delay_us, "
         "reorder, unregistered, drop_every, drop_after, kill, kill_read, silent, "
         "mute, stuck, clock_us"},
        {"kill=3,again=1", "character 14: again takes a share, 0 to below 1, not \"1\""},
        {"kill", "character 5: kill takes a number, not \"\""},
        {"delay_us=x", "character 10: delay_us takes microseconds, up to 10000000, not "
                       "\"x\""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct fault_script parsed;
        char why[TRANSPORT_TEXT_MAX];
        assert_int_equal(fault_script_parse(rows[i].text, &parsed, why), TRYST_E_CONFIG);
        assert_string_equal(why, rows[i].why);
    }
}

/* ---- faults ---- */

struct seen {
    uint64_t numbers[512];
    unsigned count;
};

static void note(struct node *node, const void *data, size_t bytes)
{
    struct seen *seen = node->arg;
    CHECK(bytes == 8 && seen->count < 512);
    memcpy(&seen->numbers[seen->count++], data, 8);
}

/* Send 1..count from a to b and record in `seen` which arrived. Return how often a send
 * returned AGAIN. */
static unsigned frames_run(struct node *a, struct node *b, unsigned count,
                           struct seen *seen)
{
    unsigned again = 0;
    memset(seen, 0, sizeof *seen);
    b->on_frame = note;
    b->arg = seen;
    for (uint64_t i = 1; i <= count; i++) {
        tryst_status status;
        while ((status = frame(a, i)) == TRYST_AGAIN) {
            again++;
            assert_int_equal(a->ops->arm(a->rail), TRYST_AGAIN); /* a sleep is refused */
            (void)node_pump(a);
            (void)node_pump(b);
        }
        assert_int_equal(status, TRYST_OK);
    }
    nodes_settle(a, b, 50);
    return again;
}

static void without_faults(void **state)
{
    struct node a, b;
    struct seen seen;
    uint64_t alive = alloc_live_count();
    (void)state;
    pair_open(&a, &b, "");
    assert_int_equal(frames_run(&a, &b, 100, &seen), 0);
    assert_int_equal(seen.count, 100);
    node_close(&a);
    node_close(&b);
    assert_int_equal(alloc_live_count(), alive);
}

static void again_is_repeatable(void **state)
{
    struct node a, b;
    struct seen seen;
    unsigned first;
    (void)state;
    pair_open(&a, &b, "seed=5,again=0.5");
    first = frames_run(&a, &b, 200, &seen);
    assert_in_range(first, 100, 400); /* expected: 200 */
    assert_int_equal(seen.count, 200);
    for (unsigned i = 0; i < 200; i++)
        assert_int_equal(seen.numbers[i], i + 1);
    node_close(&a);
    node_close(&b);
    pair_open(&a, &b, "seed=5,again=0.5");
    assert_int_equal(frames_run(&a, &b, 200, &seen), first);
    node_close(&a);
    node_close(&b);
    pair_open(&a, &b, "seed=6,again=0.5");
    assert_int_not_equal(frames_run(&a, &b, 200, &seen), first);
    node_close(&a);
    node_close(&b);
}

static void drops(void **state)
{
    struct node a, b;
    struct seen seen;
    (void)state;
    pair_open(&a, &b, "drop_every=3");
    (void)frames_run(&a, &b, 9, &seen);
    assert_int_equal(seen.count, 6);
    assert_memory_equal(seen.numbers, ((uint64_t[]){1, 2, 4, 5, 7, 8}), 48);
    node_close(&a);
    node_close(&b);
    pair_open(&a, &b, "drop_after=4");
    (void)frames_run(&a, &b, 9, &seen);
    assert_int_equal(seen.count, 4);
    node_close(&a);
    node_close(&b);
}

static void silent(void **state)
{
    struct node a, b;
    struct seen seen;
    (void)state;
    pair_open(&a, &b, "silent=5");
    (void)frames_run(&a, &b, 9, &seen);
    assert_int_equal(seen.count, 5); /* from frame 6 on */
    assert_false(a.failed || b.failed);
    (void)frames_run(&b, &a, 3, &seen);
    assert_int_equal(seen.count, 0); /* both directions */
    node_close(&a);
    node_close(&b);
}

static void killed_loudly(void **state)
{
    struct node a, b;
    struct test_bulk recv;
    char data[100];
    (void)state;
    pair_open(&a, &b, "kill=3");
    test_bulk_init(&recv, 77, data, sizeof data, NULL);
    assert_int_equal(a.ops->bulk_recv(a.ep, &recv.bulk), TRYST_OK);
    assert_int_equal(frame(&a, 1), TRYST_OK);
    assert_int_equal(frame(&a, 2), TRYST_OK); /* the third event */
    assert_false(a.failed);                   /* not from inside the call */
    assert_int_equal(frame(&a, 3), TRYST_AGAIN);
    assert_int_equal(a.ops->arm(a.rail), TRYST_AGAIN);
    (void)node_pump(&a);
    assert_true(a.failed);
    assert_int_equal(a.failed_status, TRYST_E_PEER);
    assert_non_null(strstr(a.text, "event 3"));
    assert_int_equal(frame(&a, 4), TRYST_E_PEER);
    assert_int_equal(a.ops->bulk_recv(a.ep, &recv.bulk), TRYST_E_PEER);
    a.failed = false;
    nodes_settle(&a, &b, 20);
    assert_false(a.failed); /* once */
    assert_int_equal(recv.done_count, 0);
    a.ops->ep_close(a.ep);
    assert_true(nodes_until(&a, &b, &a.closed, 2000));
    assert_int_equal(recv.done_count, 1); /* before `closed` */
    assert_int_equal(recv.status, TRYST_E_CANCELED);
    node_close(&a);
    node_close(&b);
}

static void closed_before_said(void **state)
{
    struct node a, b;
    (void)state;
    pair_open(&a, &b, "kill=1");
    assert_int_equal(frame(&a, 1), TRYST_OK);
    a.ops->ep_close(a.ep);
    assert_true(nodes_until(&a, &b, &a.closed, 2000));
    assert_false(a.failed);
    node_close(&a);
    node_close(&b);
}

/* ---- delayed ---- */

#define FAKE_NS UINT64_C(5000000000)

static void pair_open_at(struct node *a, struct node *b, const char *text)
{
    pair_open(a, b, text);
    a->fake_ns = b->fake_ns = FAKE_NS;
}

static void delayed(void **state)
{
    struct node a, b;
    struct seen seen;
    struct test_bulk recv, send;
    char from[1000], to[1000] = {0};
    (void)state;
    pair_open_at(&a, &b, "delay_us=100");
    memset(from, 7, sizeof from);
    test_bulk_init(&recv, 5, to, sizeof to, NULL);
    test_bulk_init(&send, 5, from, sizeof from, NULL);
    assert_int_equal(b.ops->bulk_recv(b.ep, &recv.bulk), TRYST_OK);
    assert_int_equal(a.ops->bulk_send(a.ep, &send.bulk), TRYST_OK);
    (void)frames_run(&a, &b, 64, &seen);
    /* all 64 delays cannot be 0 by chance */
    assert_in_range(seen.count, 0, 63);
    assert_int_equal(frame(&a, 65), TRYST_AGAIN); /* the queue is bounded */
    /* delayed bulk is due later, and no poller is set */
    assert_int_equal(a.ops->arm(a.rail), TRYST_E_UNSUPPORTED);
    a.fake_ns += 100000;
    assert_int_equal(a.ops->arm(a.rail), TRYST_AGAIN);
    nodes_settle(&a, &b, 50);
    assert_int_equal(seen.count, 64);
    for (unsigned i = 0; i < 64; i++)
        assert_int_equal(seen.numbers[i], i + 1);
    assert_true(recv.done && send.done);
    assert_memory_equal(from, to, sizeof to);
    assert_int_equal(frame(&a, 65), TRYST_OK);
    node_close(&a);
    node_close(&b);
}

static void closed_while_held(void **state)
{
    struct node a, b;
    struct test_bulk send;
    char data[10] = {0};
    uint64_t alive = alloc_live_count();
    (void)state;
    pair_open_at(&a, &b, "delay_us=10000000");
    test_bulk_init(&send, 5, data, sizeof data, NULL);
    assert_int_equal(a.ops->bulk_send(a.ep, &send.bulk), TRYST_OK);
    for (uint64_t i = 0; i < 10; i++)
        assert_int_equal(frame(&a, i), TRYST_OK);
    a.ops->ep_close(a.ep);
    assert_int_equal(send.done_count, 0); /* not from inside the call */
    assert_true(nodes_until(&a, &b, &a.closed, 2000));
    assert_int_equal(send.done_count, 1);
    assert_int_equal(send.status, TRYST_E_CANCELED);
    node_close(&a);
    node_close(&b);
    assert_int_equal(alloc_live_count(), alive);
}

enum { BULKS = 40 };

struct order {
    unsigned places[BULKS]; /* of each receive, its index in the order of completion */
    unsigned late;          /* number of receives not done before time passed */
    unsigned moved;
};

static unsigned done_count(const struct test_bulk *recvs)
{
    unsigned count = 0;
    for (unsigned i = 0; i < BULKS; i++)
        count += recvs[i].done;
    return count;
}

static void order_note(struct order *order, const struct test_bulk *recvs, unsigned *next)
{
    for (unsigned i = 0; i < BULKS; i++)
        if (recvs[i].done && order->places[i] == BULKS)
            order->places[i] = (*next)++;
}

/* Run bulks of one byte, one after the other, under the script `text`. */
static struct order order_run(const char *text)
{
    struct node a, b;
    struct test_bulk recvs[BULKS], sends[BULKS];
    struct order order = {.late = 0};
    char from[BULKS], to[BULKS];
    unsigned next = 0;
    pair_open_at(&a, &b, text);
    for (unsigned i = 0; i < BULKS; i++) {
        order.places[i] = BULKS;
        from[i] = (char)(i + 1);
        test_bulk_init(&recvs[i], i, to + i, 1, NULL);
        test_bulk_init(&sends[i], i, from + i, 1, NULL);
        assert_int_equal(b.ops->bulk_recv(b.ep, &recvs[i].bulk), TRYST_OK);
    }
    for (unsigned i = 0; i < BULKS; i++) {
        assert_int_equal(a.ops->bulk_send(a.ep, &sends[i].bulk), TRYST_OK);
        nodes_settle(&a, &b, 4);
        order_note(&order, recvs, &next);
    }
    order.late = BULKS - done_count(recvs);
    a.fake_ns += 1000000;
    nodes_settle(&a, &b, 50);
    order_note(&order, recvs, &next);
    assert_int_equal(done_count(recvs), BULKS);
    assert_memory_equal(from, to, BULKS);
    for (unsigned i = 0; i < BULKS; i++) {
        assert_int_equal(sends[i].done_count, 1);
        order.moved += order.places[i] != i;
    }
    node_close(&a);
    node_close(&b);
    return order;
}

static void reordered(void **state)
{
    (void)state;
    struct order plain = order_run(""), first = order_run("seed=3,reorder=0.5"),
                 second = order_run("seed=3,reorder=0.5"),
                 other = order_run("seed=4,reorder=0.5"), all = order_run("reorder=1");
    assert_int_equal(plain.moved, 0);
    assert_in_range(first.moved, BULKS / 4, BULKS);
    assert_memory_equal(first.places, second.places, sizeof first.places);
    assert_memory_not_equal(first.places, other.places, sizeof first.places);
    /* each bulk is held for a later one, until time has passed */
    assert_int_equal(all.late, BULKS);
}

static void silent_bulk(void **state)
{
    struct node a, b;
    struct test_bulk recv, send;
    char data[10] = {0};
    (void)state;
    pair_open(&a, &b, "silent=1");
    assert_int_equal(frame(&a, 1), TRYST_OK);
    test_bulk_init(&recv, 5, data, 5, NULL);
    test_bulk_init(&send, 5, data + 5, 5, NULL);
    assert_int_equal(b.ops->bulk_recv(b.ep, &recv.bulk), TRYST_OK);
    assert_int_equal(a.ops->bulk_send(a.ep, &send.bulk), TRYST_OK);
    nodes_settle(&a, &b, 50);
    assert_false(recv.done || send.done);
    /* a silent bulk does not prevent sleep */
    assert_int_equal(a.ops->arm(a.rail), TRYST_OK);
    a.ops->ep_close(a.ep);
    assert_true(nodes_until(&a, &b, &a.closed, 2000));
    assert_int_equal(send.status, TRYST_E_CANCELED);
    node_close(&a);
    node_close(&b);
}

static void another_rank(void **state)
{
    struct node a, b;
    struct seen seen;
    (void)state; /* both ends are rank 0 here */
    pair_open(&a, &b, "rank=1,kill=1,again=0.9,drop_every=1,delay_us=1000000");
    assert_int_equal(frames_run(&a, &b, 9, &seen), 0);
    assert_int_equal(seen.count, 9);
    assert_false(a.failed || b.failed);
    node_close(&a);
    node_close(&b);
    pair_open(&a, &b, "rank=0,kill=1");
    assert_int_equal(frame(&a, 1), TRYST_OK);
    nodes_settle(&a, &b, 5);
    assert_true(a.failed);
    node_close(&a);
    node_close(&b);
}

/* Send a message of 9,000 bytes to a receive of b that borrows, until it is borrowed. */
static void borrow_begin(struct node *a, struct node *b, struct test_bulk *send,
                         struct test_bulk *recv)
{
    static uint8_t data[9000];
    pattern_fill(data, sizeof data, 6);
    assert_true(b->ep->borrows);
    test_borrow_init(recv, 6, sizeof data);
    test_bulk_init(send, 6, data, sizeof data, NULL);
    assert_int_equal(b->ops->bulk_recv(b->ep, &recv->bulk), TRYST_OK);
    assert_int_equal(a->ops->bulk_send(a->ep, &send->bulk), TRYST_OK);
    assert_true(nodes_until(a, b, &recv->borrowed, 1000));
}

static void borrowed(void **state)
{
    struct node a, b;
    struct test_bulk send, recv;
    (void)state;
    pair_open(&a, &b, "delay_us=200");
    borrow_begin(&a, &b, &send, &recv);
    assert_int_equal(test_borrow_read(&b, &recv, 1, 100, 6), TRYST_OK);
    nodes_settle(&a, &b, 3);
    assert_false(send.done);
    assert_int_equal(b.ops->bulk_return(b.ep, &recv.bulk), TRYST_OK);
    assert_true(nodes_until(&a, &b, &send.done, 1000));
    assert_false(recv.done);
    node_close(&a);
    node_close(&b);
}

/* The endpoint breaks at the read that `text` names, b's second; nothing of the message
 * counts, and its receive ends with the endpoint. */
static void killed_reading(const char *text, const char *why)
{
    struct node a, b;
    struct test_bulk send, recv;
    pair_open(&a, &b, text);
    borrow_begin(&a, &b, &send, &recv);
    assert_int_equal(test_borrow_read(&b, &recv, 0, 100, 6), TRYST_OK);
    assert_int_equal(test_borrow_read(&b, &recv, 100, 100, 6), TRYST_E_PEER);
    assert_int_equal(b.ops->bulk_return(b.ep, &recv.bulk), TRYST_E_PEER);
    assert_false(b.failed);
    assert_true(nodes_until(&b, NULL, &b.failed, 1000));
    assert_int_equal(b.failed_status, TRYST_E_PEER);
    assert_string_equal(b.text, why);
    node_close(&b);
    assert_int_equal(recv.done_count, 1);
    assert_int_equal(recv.status, TRYST_E_CANCELED);
    node_close(&a);
    assert_int_equal(send.done_count, 1);
}

static void killed_at_a_read(void **state)
{
    (void)state;
    killed_reading("kill_read=2", "fault script: killed at read 2");
    killed_reading("kill=3", "fault script: killed at event 3");
}

/* ---- registrations ---- */

static struct rail inner_rail;
static const struct tryst_host *inner_host;
static int registered, unregistered;

static tryst_status inner_register(struct rail *rail, struct tryst_mem *mem,
                                   void **handle_p)
{
    (void)mem;
    assert_ptr_equal(rail, &inner_rail);
    *handle_p = &registered;
    registered++;
    return TRYST_OK;
}

static void inner_unregister(struct rail *rail, void *handle)
{
    assert_ptr_equal(rail, &inner_rail);
    assert_ptr_equal(handle, &registered);
    unregistered++;
}

static tryst_status inner_open(const struct rail_params *params, struct rail **rail_p)
{
    inner_rail = (struct rail){.events = params->events, .index = params->index};
    inner_host = params->host;
    *rail_p = &inner_rail;
    return TRYST_OK;
}

static void inner_close(struct rail *rail)
{
    assert_ptr_equal(rail, &inner_rail);
}

/* A region's slot holds the rail that the context has (the wrapper), so a registration
 * can be dropped. */
static void registrations_are_the_outer_rails(void **state)
{
    static const struct transport_ops inner = {.name = "inner",
                                               .struct_size = sizeof inner,
                                               .rail_open = inner_open,
                                               .rail_close = inner_close,
                                               .mem_register = inner_register,
                                               .mem_unregister = inner_unregister};
    struct rail_params params = {.index = 3};
    struct memory_cache *cache;
    struct tryst_mem *mem;
    struct rail *rail;
    struct tryst_host host;
    void *handle = NULL;
    static char data[4096];
    (void)state;
    module_host_init(&host, NULL, NULL);
    params.host = &host;
    script = (struct fault_script){.seed = 1};
    assert_int_equal(fault_rail_open(&inner, &script, &params, &rail), TRYST_OK);
    assert_int_equal(memory_cache_open(NULL, NULL, &cache), TRYST_OK);
    assert_int_equal(
        memory_register(cache, data, sizeof data, TRYST_MEMORY_HOST, 0, &mem), TRYST_OK);
    assert_int_equal(inner_host->mem_handle(mem, &inner_rail, &handle), TRYST_OK);
    assert_ptr_equal(handle, &registered);
    assert_ptr_equal(mem->registrations[3].rail, rail);
    memory_rail_forget(cache, rail);
    assert_int_equal(registered, 1);
    assert_int_equal(unregistered, 1);
    rail->ops->rail_close(rail);
    memory_release(mem);
    (void)memory_cache_close(cache);
}

static void registrations_fail(void **state)
{
    static const struct transport_ops inner = {.name = "inner",
                                               .struct_size = sizeof inner,
                                               .rail_open = inner_open,
                                               .rail_close = inner_close,
                                               .mem_register = inner_register,
                                               .mem_unregister = inner_unregister};
    struct rail_params params = {.index = 3};
    struct rail *rail;
    struct tryst_host host;
    void *handle;
    int before = registered, failed = 0;
    (void)state;
    module_host_init(&host, NULL, NULL);
    params.host = &host;
    script = (struct fault_script){.seed = 1, .unregistered = 0.5};
    assert_int_equal(fault_rail_open(&inner, &script, &params, &rail), TRYST_OK);
    for (int i = 0; i < 100; i++)
        failed += rail->ops->mem_register(rail, NULL, &handle) == TRYST_E_NOMEM;
    assert_in_range(failed, 20, 80);
    assert_int_equal(registered - before, 100 - failed);
    rail->ops->rail_close(rail);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(script_texts),
        cmocka_unit_test(script_values),
        cmocka_unit_test(script_reasons),
        cmocka_unit_test(without_faults),
        cmocka_unit_test(again_is_repeatable),
        cmocka_unit_test(drops),
        cmocka_unit_test(silent),
        cmocka_unit_test(killed_loudly),
        cmocka_unit_test(closed_before_said),
        cmocka_unit_test(delayed),
        cmocka_unit_test(closed_while_held),
        cmocka_unit_test(reordered),
        cmocka_unit_test(silent_bulk),
        cmocka_unit_test(another_rank),
        cmocka_unit_test(borrowed),
        cmocka_unit_test(killed_at_a_read),
        cmocka_unit_test(registrations_are_the_outer_rails),
        cmocka_unit_test(registrations_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
