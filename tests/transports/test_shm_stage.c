/* SPDX-License-Identifier: Apache-2.0 */
/* The stage of shm: what it costs, what happens when it is full, refused, refused by the
 * peer, or left with sends in flight, and that a forked child has no part of it. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/memory/alloc.h"
#include "pair_pump.h"
#include "support/descriptors.h"
#include "transports/shm/shm_stage.h"

enum { STAGE = 3, MOST = 80 }; /* value of shm_mech; most transfers of one test */

struct transfer {
    struct test_bulk send, recv;
    uint8_t *from, *to;
};

struct fixture {
    struct node a, b;
    struct transfer transfers[MOST];
    uint64_t alive;
    int descriptors;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    f->descriptors = descriptors_open();
    f->alive = alloc_live_count();
    f->a.mech = f->b.mech = STAGE;
    nodes_connect(&f->a, &f->b, &transport_shm);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    node_close(&f->a);
    node_close(&f->b);
    CHECK(alloc_live_count() == f->alive);
    CHECK(descriptors_open() == f->descriptors);
    for (unsigned i = 0; i < MOST; i++) {
        free(f->transfers[i].from);
        free(f->transfers[i].to);
    }
    free(f);
    return 0;
}

static const struct shm_stage *stage_of(const struct node *node)
{
    return ((const struct shm_rail *)node->rail)->stage;
}

/* Post the receive of transfer `index` at `to`, and send it at `from`. */
static tryst_status start(struct fixture *f, struct node *from, struct node *to,
                          unsigned index, size_t bytes)
{
    struct transfer *t = &f->transfers[index];
    t->from = malloc(bytes);
    t->to = malloc(bytes);
    pattern_fill(t->from, bytes, index);
    test_bulk_init(&t->recv, index, t->to, bytes, NULL);
    test_bulk_init(&t->send, index, t->from, bytes, NULL);
    CHECK(to->ops->bulk_recv(to->ep, &t->recv.bulk) == TRYST_OK);
    return from->ops->bulk_send(from->ep, &t->send.bulk);
}

static void finish(struct fixture *f, struct node *from, struct node *to, unsigned index)
{
    struct transfer *t = &f->transfers[index];
    CHECK(nodes_until(from, to, &t->recv.done, 10000));
    CHECK(nodes_until(from, to, &t->send.done, 10000));
    CHECK(t->recv.status == TRYST_OK && t->send.status == TRYST_OK);
    CHECK(t->send.done_count == 1 && t->recv.done_count == 1);
    CHECK(pattern_is(t->to, t->recv.bulk.bytes, index));
}

/* Send `bytes` from a to b, and check them. */
static void transfer(struct fixture *f, unsigned index, size_t bytes)
{
    CHECK(start(f, &f->a, &f->b, index, bytes) == TRYST_OK);
    finish(f, &f->a, &f->b, index);
}

static unsigned lines_with(const char *path, const char *text)
{
    char line[512];
    unsigned count = 0;
    FILE *file = fopen(path, "r");
    CHECK(file);
    while (fgets(line, sizeof line, file))
        count += strstr(line, text) != NULL;
    fclose(file);
    return count;
}

static unsigned stage_mappings(void)
{
    return lines_with("/proc/self/maps", "memfd:tryst-stage");
}

static unsigned stage_descriptors(void)
{
    unsigned count = 0;
    for (int fd = 0; fd < 1024; fd++) {
        char path[64], name[64] = {0};
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        count += readlink(path, name, sizeof name - 1) > 0 &&
                 strstr(name, "memfd:tryst-stage") != NULL;
    }
    return count;
}

/* The stage is made by the first bulk that uses it, with one descriptor, and mapped once
 * by the peer, however many bulks use it. Small ones and the largest use the ring. */
static void test_life(void **state)
{
    struct fixture *f = *state;
    transfer(f, 0, 2048);
    transfer(f, 1, SHM_STAGE_BULK_MAX + 1);
    assert_null(stage_of(&f->a));
    for (unsigned i = 2; i < 6; i++)
        transfer(f, i, i == 2 ? 2049 : i == 3 ? SHM_STAGE_BULK_MAX : 300001);
    assert_non_null(stage_of(&f->a));
    assert_int_equal(stage_of(&f->a)->used, 0);
    assert_null(stage_of(&f->b));
    assert_int_equal(stage_mappings(), 2);
    assert_int_equal(stage_descriptors(), 1);
    assert_int_equal(f->a.mechs_dropped, 0);
    node_close(&f->a);
    node_close(&f->b);
    assert_int_equal(stage_mappings(), 0);
}

/* Peers map the file for reading only. */
static void test_read_only(void **state)
{
    transfer(*state, 0, 100000);
    assert_int_equal(lines_with("/proc/self/maps", "rw-s"), 2 + 1); /* segment, stage */
    assert_int_equal(lines_with("/proc/self/maps", "r--s"), 1);
}

/* A full stage: a send waits while its peer has answers to give; a send to another peer,
 * which has none, goes through the ring and arrives before any answer. */
static void test_full(void **state)
{
    struct fixture *f = *state;
    struct node c = {.mech = STAGE, .shares_rail = true, .rail = f->a.rail};
    struct node d = {.mech = STAGE};
    unsigned sent = 0;
    nodes_link(&c, &d, &transport_shm);
    c.params.nonce = d.params.peer_nonce = 0x3333;
    d.params.nonce = c.params.peer_nonce = 0x4444;
    assert_true(node_open(&c) && node_open(&d));
    assert_true(nodes_until(&c, &d, &c.ready, 5000) &&
                nodes_until(&c, &d, &d.ready, 5000));
    while (start(f, &f->a, &f->b, sent, SHM_STAGE_BLOCK_BYTES) == TRYST_OK)
        sent++;
    assert_int_equal(sent, SHM_STAGE_BLOCKS);
    assert_int_equal(stage_of(&f->a)->used, UINT64_MAX);
    assert_int_equal(start(f, &c, &d, 70, 100000), TRYST_OK);
    nodes_settle(&c, NULL, 100); /* progress of a, too: all is copied and offered */
    finish(f, &c, &d, 70);
    assert_false(f->transfers[0].send.done);
    nodes_settle(&f->a, &f->b, 100);
    assert_int_equal(f->a.ops->bulk_send(f->a.ep, &f->transfers[sent].send.bulk),
                     TRYST_OK);
    for (unsigned i = 0; i <= sent; i++)
        finish(f, &f->a, &f->b, i);
    assert_int_equal(stage_of(&f->a)->used, 0);
    assert_int_equal(start(f, &c, &d, 71, 100000), TRYST_OK);
    assert_int_equal(stage_of(&f->a)->used, 1);
    finish(f, &c, &d, 71);
    node_close_ep(&c);
    node_close(&d);
    node_close(&c);
}

/* Bulk of many blocks finds them in a row wherever they are free. */
static void test_rows(void **state)
{
    struct fixture *f = *state;
    static const unsigned blocks[] = {32, 24, 8};
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(start(f, &f->a, &f->b, i, blocks[i] * SHM_STAGE_BLOCK_BYTES - 5),
                         TRYST_OK);
    assert_int_equal(stage_of(&f->a)->used, UINT64_MAX);
    assert_int_equal(start(f, &f->a, &f->b, 3, SHM_STAGE_BLOCK_BYTES + 1), TRYST_AGAIN);
    finish(f, &f->a, &f->b, 1);
    assert_int_equal(f->a.ops->bulk_send(f->a.ep, &f->transfers[3].send.bulk), TRYST_OK);
    for (unsigned i = 0; i < 4; i++)
        if (i != 1)
            finish(f, &f->a, &f->b, i);
}

/* No more than one piece is copied in a pass, and the rail does not sleep meanwhile. */
static void test_pieces(void **state)
{
    struct fixture *f = *state;
    enum { BLOCKS = 5 };
    assert_int_equal(start(f, &f->a, &f->b, 0, BLOCKS * SHM_STAGE_BLOCK_BYTES), TRYST_OK);
    const struct pair_op *op = pair_op_of(&f->transfers[0].send.bulk);
    for (unsigned i = 0; i < BLOCKS; i++) {
        assert_int_equal(op->moved, i * SHM_STAGE_BLOCK_BYTES);
        assert_int_equal(f->a.ops->arm(f->a.rail), TRYST_AGAIN);
        assert_true(f->a.ops->progress(f->a.rail) > 0);
    }
    assert_int_equal(f->a.ops->arm(f->a.rail), TRYST_OK);
    finish(f, &f->a, &f->b, 0);
}

/* An offer that finds no room in the ring leaves when there is room. */
static void test_no_room(void **state)
{
    struct fixture *f = *state;
    static const uint8_t frame[4096];
    while (transport_frame_send(f->a.ops, f->a.ep, frame, sizeof frame) == TRYST_OK)
        ;
    while (transport_frame_send(f->a.ops, f->a.ep, frame, 1) == TRYST_OK)
        ;
    assert_int_equal(start(f, &f->a, &f->b, 0, 100000), TRYST_OK);
    assert_int_equal(start(f, &f->a, &f->b, 1, 1000), TRYST_OK);
    nodes_settle(&f->a, NULL, 5);
    assert_int_equal(f->a.ops->arm(f->a.rail), TRYST_OK);
    finish(f, &f->a, &f->b, 0);
    finish(f, &f->a, &f->b, 1);
}

/* An endpoint that closes, with sends being copied, offered, and waiting for room, frees
 * their blocks: the rail's next peer has the whole stage. */
static void close_in_flight(struct fixture *f, unsigned rounds)
{
    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(start(f, &f->a, &f->b, i, (size_t)1 << 20), TRYST_OK);
    nodes_settle(&f->a, rounds % 2 ? &f->b : NULL, rounds);
    node_close_ep(&f->a);
    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(f->transfers[i].send.done_count, 1);
    assert_int_equal(stage_of(&f->a)->used, 0);
}

static void test_close_while_copied(void **state)
{
    close_in_flight(*state, 4);
}

static void test_close_while_offered(void **state)
{
    close_in_flight(*state, 200);
}

static void test_close_while_read(void **state)
{
    close_in_flight(*state, 31);
}

/* A protocol error of the peer ends the sends, and frees their blocks. */
static void test_broken(void **state)
{
    struct fixture *f = *state;
    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(start(f, &f->a, &f->b, i, (size_t)1 << 20), TRYST_OK);
    nodes_settle(&f->a, NULL, 20);
    ring_tx_put(&((struct pair_ep *)f->b.ep)->tx, PAIR_FRAME, NULL, 0, NULL, 0);
    assert_true(nodes_until(&f->a, NULL, &f->transfers[7].send.done, 5000));
    assert_true(f->a.failed);
    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(f->transfers[i].send.status, TRYST_E_PEER);
    assert_int_equal(stage_of(&f->a)->used, 0);
}

/* A peer that answers RETRY gets that bulk through the ring, and the next by the
 * stage. */
static void test_retry(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(start(f, &f->a, &f->b, 0, 100000), TRYST_OK);
    nodes_settle(&f->a, NULL, 3);
    struct pair_side *mine = ((struct pair_ep *)f->a.ep)->mine;
    atomic_store(&mine->answer[0], PAIR_ANSWER_RETRY);
    atomic_store(&mine->answered, 1);
    nodes_settle(&f->a, NULL, 3);
    assert_int_equal(stage_of(&f->a)->used, 0);
    assert_int_equal(((struct pair_ep *)f->a.ep)->jobs_count, 1);
    assert_int_equal(f->a.mechs_dropped, 0);
    assert_int_equal(start(f, &f->a, &f->b, 1, 100000), TRYST_OK);
    assert_int_equal(stage_of(&f->a)->used, 1);
}

/* --- without a stage --- */

/* Both transfers arrive, by the ring; the loss is counted once. */
static void rings(struct fixture *f)
{
    transfer(f, 0, 100000);
    transfer(f, 1, 100000);
    CHECK(f->a.mechs_dropped == 1);
    CHECK(!stage_of(&f->a) || stage_of(&f->a)->used == 0);
}

/* The peer has no descriptor for the region. */
static void test_peer_without_descriptor(void **state)
{
    struct fixture *f = *state;
    f->b.drop_fds = true;
    rings(f);
}

/* Run `fn` in a child, since limits cannot be raised again. */
static void in_child(void (*fn)(struct fixture *))
{
    fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        struct fixture *f;
        CHECK(setup((void **)&f) == 0);
        fn(f);
        CHECK(teardown((void **)&f) == 0);
        _exit(0);
    }
    assert_int_equal(child_wait(pid), 0);
}

static void no_descriptor(struct fixture *f)
{
    struct rlimit before, none = {0};
    CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
    none.rlim_max = before.rlim_max;
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    rings(f);
    CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
}

static void no_file_size(struct fixture *f)
{
    struct rlimit limit = {SHM_STAGE_BYTES - 1, SHM_STAGE_BYTES - 1};
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    rings(f);
}

static void no_address_space(struct fixture *f)
{
    struct rlimit limit = {0};
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long pages = 0;
    CHECK(file && fscanf(file, "%lu", &pages) == 1);
    fclose(file);
    limit.rlim_cur = limit.rlim_max = pages * 4096 + SHM_STAGE_BYTES / 2;
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    rings(f);
}

static void test_refused(void **state)
{
    (void)state;
    in_child(no_descriptor);
    in_child(no_file_size);
    in_child(no_address_space);
}

/* Each allocation of the first bulk fails once: the bytes arrive, or the receiver breaks
 * for want of memory. */
static void test_allocation_failures(void **state)
{
    (void)state;
    for (uint64_t nth = 1;; nth++) {
        struct fixture *f;
        assert_int_equal(setup((void **)&f), 0);
        alloc_fail_at(nth);
        assert_int_equal(start(f, &f->a, &f->b, 0, 100000), TRYST_OK);
        assert_true(nodes_until(&f->a, &f->b, &f->transfers[0].recv.done, 5000));
        bool more = alloc_fail_off();
        if (f->transfers[0].recv.status == TRYST_OK)
            assert_true(pattern_is(f->transfers[0].to, 100000, 0));
        else
            assert_true(f->b.failed && f->b.failed_status == TRYST_E_NOMEM);
        node_close_ep(&f->a);
        assert_true(f->transfers[0].send.done);
        assert_int_equal(teardown((void **)&f), 0);
        if (!more)
            break;
    }
}

/* --- fork --- */

static void test_fork(void **state)
{
    struct fixture *f = *state;
    transfer(f, 0, 100000);
    assert_int_equal(stage_mappings(), 2);
    assert_int_equal(stage_descriptors(), 1);
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(stage_mappings() == 0 && stage_descriptors() == 0 ? 0 : 1);
    assert_int_equal(child_wait(pid), 0);
    transfer(f, 1, 100000);
    assert_int_equal(f->a.mechs_dropped, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_life),
        TEST(test_read_only),
        TEST(test_full),
        TEST(test_rows),
        TEST(test_pieces),
        TEST(test_no_room),
        TEST(test_close_while_copied),
        TEST(test_close_while_offered),
        TEST(test_close_while_read),
        TEST(test_broken),
        TEST(test_retry),
        TEST(test_peer_without_descriptor),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_allocation_failures),
        TEST(test_fork),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
