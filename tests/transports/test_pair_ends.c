/* SPDX-License-Identifier: Apache-2.0 */
/* Both ends work at once, as threads of one process (self and shm; checked by TSan) and
 * as two processes (shm): traffic in both directions, thousands of sleeps without a lost
 * wake-up, closing in any order under load. A lost wake-up shows as a sleep of full
 * length. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/memory/alloc.h"
#include "core/os/random.h"
#include "pair_pump.h"

#define SLEEP_MS 20000 /* longer than any delay of a busy machine */

static uint64_t seed;
static _Atomic uint64_t slowest_ns; /* approximate, over all sleeps in this process */

/* --- running both ends --- */

struct end {
    struct node node;
    void (*fn)(struct node *node, unsigned side);
    unsigned side;
};

static void *end_run(void *arg)
{
    struct end *end = arg;
    CHECK(node_open(&end->node));
    CHECK(nodes_until(&end->node, NULL, &end->node.ready, 20000));
    CHECK(end->node.ready_status == TRYST_OK);
    end->fn(&end->node, end->side);
    return NULL;
}

static void as_threads(const struct transport_ops *ops, uint64_t mech,
                       void (*fn)(struct node *, unsigned))
{
    struct end ends[2] = {{.node.mech = mech, .fn = fn, .side = 0},
                          {.node.mech = mech, .fn = fn, .side = 1}};
    uint64_t alive = alloc_live_count();
    pthread_t thread;
    nodes_link(&ends[0].node, &ends[1].node, ops);
    CHECK(pthread_create(&thread, NULL, end_run, &ends[1]) == 0);
    end_run(&ends[0]);
    pthread_join(thread, NULL);
    assert_int_equal(alloc_live_count(), alive);
}

static void (*forked_fn)(struct node *, unsigned);

static void child_run(struct node *node)
{
    struct end end = {.node = *node, .fn = forked_fn, .side = 1};
    end.node.host.config_arg = end.node.params.arg = &end.node;
    end_run(&end);
}

static void as_processes(uint64_t mech, void (*fn)(struct node *, unsigned))
{
    struct end end = {.node.mech = mech, .fn = fn, .side = 0};
    struct node b = {.mech = mech};
    forked_fn = fn;
    pid_t child = nodes_fork(&end.node, &b, &transport_shm, child_run);
    end_run(&end);
    assert_int_equal(child_wait(child), 0);
}

/* --- traffic --- */

enum { FLOWS = 8, ROUNDS = 60 };

struct flow {
    struct test_bulk send, recv;
    uint8_t *from, *to;
    uint64_t tag;
    bool wanted;  /* the peer has posted its receive */
    bool sending; /* the send is in flight */
    unsigned sent, received;
};

struct traffic {
    struct flow flow[FLOWS];
    unsigned side;
};

static size_t size_of(unsigned flow, unsigned round)
{
    uint64_t mixed = (flow * 1000u + round + 1) * UINT64_C(0x9E3779B97F4A7C15);
    return (size_t)((mixed >> 33) % (flow < 4 ? 3000 : 300000));
}

/* A frame is a WANT: the peer has posted the flow's next receive. */
static void on_want(struct node *node, const void *data, size_t bytes)
{
    struct traffic *traffic = node->arg;
    uint64_t index;
    CHECK(bytes == 8);
    memcpy(&index, data, 8);
    CHECK(index < FLOWS && !traffic->flow[index].wanted);
    traffic->flow[index].wanted = true;
}

static void recv_next(struct node *node, struct traffic *traffic, uint64_t index)
{
    struct flow *flow = &traffic->flow[index];
    size_t bytes = size_of((unsigned)index, flow->received);
    test_bulk_init(&flow->recv, index + 100, flow->to, bytes, NULL);
    CHECK(node->ops->bulk_recv(node->ep, &flow->recv.bulk) == TRYST_OK);
    while (transport_frame_send(node->ops, node->ep, &index, 8) == TRYST_AGAIN)
        node_pump(node);
}

static void send_next(struct node *node, struct traffic *traffic, uint64_t index)
{
    struct flow *flow = &traffic->flow[index];
    size_t bytes = size_of((unsigned)index, flow->sent);
    pattern_fill(flow->from, bytes, flow->sent * 64 + index + (1 - traffic->side));
    test_bulk_init(&flow->send, index + 100, flow->from, bytes, NULL);
    if (node->ops->bulk_send(node->ep, &flow->send.bulk) != TRYST_OK)
        return;
    flow->wanted = false;
    flow->sending = true;
}

static bool flow_step(struct node *node, struct traffic *traffic, uint64_t index)
{
    struct flow *flow = &traffic->flow[index];
    if (flow->received < ROUNDS && flow->recv.done) {
        size_t bytes = size_of((unsigned)index, flow->received);
        CHECK(flow->recv.status == TRYST_OK && flow->recv.bytes == bytes);
        CHECK(pattern_is(flow->to, bytes, flow->received * 64 + index + traffic->side));
        if (++flow->received < ROUNDS)
            recv_next(node, traffic, index);
    }
    if (flow->sending && flow->send.done) {
        CHECK(flow->send.status == TRYST_OK);
        memset(flow->from, 0x55, 64); /* the caller's again */
        flow->sending = false;
        flow->sent++;
    }
    if (flow->wanted && !flow->sending)
        send_next(node, traffic, index);
    return flow->received == ROUNDS && flow->sent == ROUNDS;
}

static void traffic(struct node *node, unsigned side)
{
    struct traffic traffic = {.side = side};
    unsigned finished = 0;
    node->on_frame = on_want;
    node->arg = &traffic;
    for (unsigned i = 0; i < FLOWS; i++) {
        traffic.flow[i].from = malloc(300000);
        traffic.flow[i].to = malloc(300000);
        recv_next(node, &traffic, i);
    }
    while (finished < FLOWS) {
        node_pump(node);
        finished = 0;
        for (unsigned i = 0; i < FLOWS; i++)
            finished += flow_step(node, &traffic, i);
        sched_yield();
    }
    nodes_settle(node, NULL, 10);
    node->on_frame = NULL;
    while (side == 1 && !node->link_is_closed)
        node_pump(node);
    node_close(node);
    for (unsigned i = 0; i < FLOWS; i++) {
        free(traffic.flow[i].from);
        free(traffic.flow[i].to);
    }
}

static void test_traffic_self(void **state)
{
    as_threads(&transport_self, 0, traffic);
}

static void test_traffic_shm_threads(void **state)
{
    as_threads(&transport_shm, 2, traffic);
    as_threads(&transport_shm, 3, traffic);
}

static void test_traffic_shm(void **state)
{
    as_processes(2, traffic);
    as_processes(3, traffic);
}

/* --- sleep and wake --- */

static void sleep_timed(struct node *node)
{
    uint64_t before = now_ns();
    node_sleep(node, SLEEP_MS);
    uint64_t spent = now_ns() - before;
    if (spent > slowest_ns)
        slowest_ns = spent;
    CHECK(spent < (uint64_t)SLEEP_MS * 900000);
}

/* Wait as a context does: spin for a short random time, then sleep. */
static void wait_frames(struct node *node, uint64_t frames, struct random *random)
{
    uint64_t spin = random_range(random, 30);
    while (node->frames < frames) {
        if (node_pump(node) > 0)
            continue;
        if (node->frames >= frames)
            break;
        if (spin > 0)
            spin--;
        else
            sleep_timed(node);
    }
}

static void ping_pong(struct node *node, unsigned side)
{
    struct random random;
    random_seed(&random, seed + side);
    for (uint64_t round = 1; round <= 4000; round++) {
        if (side == 1)
            wait_frames(node, round, &random);
        CHECK(transport_frame_send(node->ops, node->ep, &round, 8) == TRYST_OK);
        if (side == 0)
            wait_frames(node, round, &random);
    }
    while (side == 1 && !node->link_is_closed)
        node_pump(node);
    node_close(node);
}

/* One side writes as much as there is room for and sleeps until there is more; the other
 * sleeps when the ring is empty. */
static void flood(struct node *node, unsigned side)
{
    struct random random;
    uint64_t frames = 30000;
    random_seed(&random, seed + side);
    if (side == 1) {
        wait_frames(node, frames, &random);
        while (transport_frame_send(node->ops, node->ep, "done", 4) == TRYST_AGAIN)
            node_pump(node);
        while (!node->link_is_closed)
            node_pump(node);
    } else {
        uint8_t frame[4096] = {0};
        for (uint64_t sent = 0; sent < frames;) {
            size_t bytes = 1 + random_range(&random, sent % 3 ? 64 : 4096);
            if (transport_frame_send(node->ops, node->ep, frame, bytes) == TRYST_OK)
                sent++;
            else if (node_pump(node) == 0)
                sleep_timed(node);
        }
        wait_frames(node, 1, &random);
    }
    node_close(node);
}

/* Move bulk by answers or ring pieces; each end sleeps in between. */
static void bulk_sleep(struct node *node, unsigned side)
{
    static uint8_t data[2][40000];
    struct test_bulk bulk;
    for (uint64_t round = 1; round <= 400; round++) {
        test_bulk_init(&bulk, round, data[side], sizeof data[side], NULL);
        if (side == 1) {
            CHECK(node->ops->bulk_recv(node->ep, &bulk.bulk) == TRYST_OK);
            CHECK(transport_frame_send(node->ops, node->ep, "w", 1) == TRYST_OK);
        } else {
            while (node->frames < round)
                if (node_pump(node) == 0)
                    sleep_timed(node);
            CHECK(node->ops->bulk_send(node->ep, &bulk.bulk) == TRYST_OK);
        }
        while (!bulk.done)
            if (node_pump(node) == 0)
                sleep_timed(node);
        CHECK(bulk.status == TRYST_OK);
    }
    while (side == 1 && !node->link_is_closed)
        node_pump(node);
    node_close(node);
}

static void test_sleep_self(void **state)
{
    as_threads(&transport_self, 0, ping_pong);
    as_threads(&transport_self, 0, flood);
    as_threads(&transport_self, 0, bulk_sleep);
}

static void test_sleep_shm_threads(void **state)
{
    as_threads(&transport_shm, 0, ping_pong);
    as_threads(&transport_shm, 0, flood);
}

static void test_sleep_shm(void **state)
{
    as_processes(0, ping_pong);
    as_processes(0, flood);
    as_processes(2, bulk_sleep);
    as_processes(3, bulk_sleep);
    print_message("longest sleep: %llu us\n", (unsigned long long)(slowest_ns / 1000));
}

/* --- closing in any order, under load --- */

static unsigned round_number; /* changed only while no end runs */

/* Each end sends, receives, and at a random moment closes, then frees and overwrites all
 * its buffers. */
static void close_any_time(struct node *node, unsigned side)
{
    enum { COUNT = 6, BYTES = 200000 };
    struct test_bulk send[COUNT], recv[COUNT];
    bool sent[COUNT] = {0}, posted[COUNT] = {0};
    struct random random;
    random_seed(&random, (seed + round_number) * 2 + side);
    uint8_t *data = malloc((size_t)2 * COUNT * BYTES);
    for (unsigned i = 0; i < COUNT; i++) {
        test_bulk_init(&recv[i], i, data + (size_t)i * BYTES, BYTES, NULL);
        posted[i] = node->ops->bulk_recv(node->ep, &recv[i].bulk) == TRYST_OK;
    }
    (void)transport_frame_send(node->ops, node->ep, "posted", 6);
    for (uint64_t turns = random_range(&random, 60); turns > 0 && node->frames == 0;
         turns--) {
        node_pump(node);
        sched_yield();
    }
    for (unsigned i = 0; i < COUNT && node->frames > 0; i++) {
        pattern_fill(data + (size_t)(COUNT + i) * BYTES, 100, i);
        test_bulk_init(&send[i], i, data + (size_t)(COUNT + i) * BYTES, BYTES, NULL);
        sent[i] = node->ops->bulk_send(node->ep, &send[i].bulk) == TRYST_OK;
    }
    for (uint64_t turns = random_range(&random, 12); turns > 0; turns--)
        node_pump(node);
    node_close(node);
    for (unsigned i = 0; i < COUNT; i++) {
        CHECK(!posted[i] || recv[i].done_count == 1);
        CHECK(!sent[i] || send[i].done_count == 1);
        if (posted[i] && recv[i].status == TRYST_OK)
            CHECK(pattern_is(recv[i].bulk.data, 100, i));
    }
    memset(data, 0x55, (size_t)2 * COUNT * BYTES);
    free(data);
}

static void test_close_any_time(void **state)
{
    for (round_number = 0; round_number < 150; round_number++)
        as_threads(&transport_self, 0, close_any_time);
    for (; round_number < 200; round_number++)
        as_processes(round_number % 4, close_any_time);
}

int main(void)
{
    const char *text = getenv("TRYST_TEST_SEED");
    seed = text ? strtoull(text, NULL, 0) : now_ns();
    print_message("TRYST_TEST_SEED=%llu\n", (unsigned long long)seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_traffic_self),
        cmocka_unit_test(test_traffic_shm_threads),
        cmocka_unit_test(test_traffic_shm),
        cmocka_unit_test(test_sleep_self),
        cmocka_unit_test(test_sleep_shm_threads),
        cmocka_unit_test(test_sleep_shm),
        cmocka_unit_test(test_close_any_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
