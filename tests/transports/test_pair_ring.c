/* SPDX-License-Identifier: Apache-2.0 */
/* The ring: order and content over every wrap, room, hostile words, two threads on one
 * mapping. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/os/random.h"
#include "transports/pair/pair_ring.h"

#define RING_BYTES UINT64_C(8192)

/* The word of an entry. */
#define WORD(bytes, kind, lap) \
    ((uint64_t)(bytes) | (uint64_t)(kind) << 32 | (uint64_t)(lap) << 40)

struct fixture {
    _Alignas(64) uint8_t data[RING_BYTES];
    struct pair_tail tail;
    struct ring_tx tx;
    struct ring_rx rx;
};

static int setup(void **state)
{
    struct fixture *f = aligned_alloc(64, sizeof *f);
    memset(f, 0, sizeof *f);
    f->tx = (struct ring_tx){
        .data = f->data, .tail = &f->tail.tail, .bytes = RING_BYTES, .lap = 1};
    f->rx = (struct ring_rx){
        .data = f->data, .tail = &f->tail.tail, .bytes = RING_BYTES, .lap = 1};
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    free(*state);
    return 0;
}

static uint64_t seed_get(void)
{
    const char *text = getenv("TRYST_TEST_SEED");
    uint64_t seed = text ? strtoull(text, NULL, 0) : 20261121;
    print_message("TRYST_TEST_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

/* Return the length of entry n; its bytes follow from n, too. */
static uint32_t length_of(uint64_t n)
{
    uint64_t mixed = (n + 1) * UINT64_C(0x9E3779B97F4A7C15);
    return 1 + (uint32_t)((mixed >> 40) % (n % 7 == 0 ? 4096 : 64));
}

static void fill(uint8_t *bytes, uint32_t length, uint64_t n)
{
    for (uint32_t i = 0; i < length; i++)
        bytes[i] = (uint8_t)(n * 131 + i * 7);
}

static bool is_filled(const uint8_t *bytes, uint32_t length, uint64_t n)
{
    for (uint32_t i = 0; i < length; i++)
        if (bytes[i] != (uint8_t)(n * 131 + i * 7))
            return false;
    return true;
}

static bool put(struct ring_tx *tx, uint64_t n)
{
    uint8_t bytes[4096];
    uint32_t length = length_of(n), head = length >= 16 ? 16 : 0;
    if (ring_tx_room(tx, length, tx->bytes) != RING_YES)
        return false;
    fill(bytes, length, n);
    ring_tx_put(tx, PAIR_FRAME, bytes, head, bytes + head, length - head);
    return true;
}

/* Read entry n: 1 correct, 0 the ring is empty, -1 wrong. */
static int take(struct ring_rx *rx, uint64_t n)
{
    uint8_t bytes[4096];
    struct ring_entry entry = {0};
    enum ring_answer answer = ring_rx_peek(rx, &entry);
    if (answer == RING_NO)
        return 0;
    if (answer == RING_BAD || entry.kind != PAIR_FRAME || entry.bytes != length_of(n))
        return -1;
    ring_rx_copy(rx, 0, bytes, entry.bytes);
    ring_rx_next(rx, entry.bytes);
    return is_filled(bytes, entry.bytes, n) ? 1 : -1;
}

static void test_order_and_wrap(void **state)
{
    struct fixture *f = *state;
    struct random random;
    uint64_t written = 0, read = 0;
    random_seed(&random, seed_get());
    while (read < 50000) {
        for (uint64_t burst = random_range(&random, 40);
             burst > 0 && put(&f->tx, written); burst--)
            written++;
        for (uint64_t burst = random_range(&random, 40); burst > 0 && read < written;
             burst--)
            assert_int_equal(take(&f->rx, read++), 1);
        if (read == written)
            assert_int_equal(take(&f->rx, read), 0);
    }
}

static void test_full_and_room_again(void **state)
{
    struct fixture *f = *state;
    uint8_t frame[4096] = {0};
    struct ring_entry entry = {0};
    assert_int_equal(ring_tx_room(&f->tx, 4096, RING_BYTES), RING_YES);
    ring_tx_put(&f->tx, PAIR_FRAME, NULL, 0, frame, 3832); /* 3,840 with its word */
    ring_tx_put(&f->tx, PAIR_FRAME, NULL, 0, frame, 3832);
    assert_int_equal(ring_tx_room(&f->tx, 4096, RING_BYTES), RING_NO);
    /* the largest payload: the free bytes without the entry's word and the line behind
     * it */
    uint64_t left = RING_BYTES - 2 * 3840 - 64 - 8;
    assert_int_equal(ring_tx_room(&f->tx, left, RING_BYTES), RING_YES);
    assert_int_equal(ring_tx_room(&f->tx, left + 1, RING_BYTES), RING_NO);
    /* bulk may not use the second half of the ring */
    assert_int_equal(ring_tx_room(&f->tx, 8, RING_BYTES / 2), RING_NO);
    assert_int_equal(ring_rx_peek(&f->rx, &entry), RING_YES);
    /* more than a quarter was read: the space is returned */
    assert_true(ring_rx_next(&f->rx, entry.bytes));
    assert_true(ring_tx_moved(&f->tx));
    assert_int_equal(ring_tx_room(&f->tx, 4000, RING_BYTES), RING_YES);
}

/* Leftover payload of earlier rounds resembles entries; none is read as an entry. */
static void test_leftovers_are_no_entries(void **state)
{
    struct fixture *f = *state;
    uint64_t fake[512];
    struct ring_entry entry = {0};
    for (unsigned i = 0; i < 512; i++)
        fake[i] = WORD(8, PAIR_FRAME, 1 + i / 8 % 2);
    for (unsigned round = 0; round < 4000; round++) {
        uint32_t bytes = 8 * (1 + round * 37 % 500);
        if (ring_tx_room(&f->tx, bytes, RING_BYTES) != RING_YES)
            fail();
        ring_tx_put(&f->tx, PAIR_FRAME, NULL, 0, fake, bytes);
        assert_int_equal(ring_rx_peek(&f->rx, &entry), RING_YES);
        assert_int_equal(entry.bytes, bytes);
        ring_rx_next(&f->rx, entry.bytes);
        assert_int_equal(ring_rx_peek(&f->rx, &entry), RING_NO);
    }
}

static void test_hostile_words(void **state)
{
    struct fixture *f = *state;
    static const uint64_t bad[] = {
        WORD(1, 0, 1),                        /* no kind */
        WORD(8, 5, 1),                        /* unknown kind */
        WORD(8, 255, 1),                      /* unknown kind */
        WORD(8, PAIR_FRAME, 0),               /* no lap */
        WORD(8, PAIR_FRAME, 3),               /* unknown lap */
        WORD(8, PAIR_FRAME, 1 | 1 << 16),     /* unknown lap */
        WORD(RING_BYTES - 71, PAIR_FRAME, 1), /* more than the ring holds */
        WORD(UINT32_MAX, PAIR_FRAME, 1),      /* also more than the ring holds */
        UINT64_MAX,
    };
    struct ring_entry entry = {0};
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        memcpy(f->data, &bad[i], 8);
        assert_int_equal(ring_rx_peek(&f->rx, &entry), RING_BAD);
    }
    uint64_t before = WORD(8, PAIR_FRAME, 2);
    memcpy(f->data, &before, 8);
    assert_int_equal(ring_rx_peek(&f->rx, &entry), RING_NO);
    uint64_t largest = WORD(RING_BYTES - 72, PAIR_FRAME, 1);
    memcpy(f->data, &largest, 8);
    assert_int_equal(ring_rx_peek(&f->rx, &entry), RING_YES);
    static uint8_t all[RING_BYTES];
    f->rx.offset = RING_BYTES - 64; /* copies wrap within the ring (checked by ASan) */
    ring_rx_copy(&f->rx, 0, all, RING_BYTES - 72);
    ring_rx_copy(&f->rx, 64, all, RING_BYTES - 136);
}

static void test_hostile_tails(void **state)
{
    struct fixture *f = *state;
    uint8_t frame[4096] = {0};
    ring_tx_put(&f->tx, PAIR_FRAME, NULL, 0, frame, 3832);
    ring_tx_put(&f->tx, PAIR_FRAME, NULL, 0, frame, 3832);
    static const uint64_t bad[] = {7744, 1 << 20, UINT64_MAX - 63, 8, 7617};
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        atomic_store(&f->tail.tail, bad[i]);
        assert_int_equal(ring_tx_room(&f->tx, 4000, RING_BYTES), RING_BAD);
        assert_int_equal(f->tx.tail_seen, 0);
    }
    atomic_store(&f->tail.tail, 3840);
    assert_int_equal(ring_tx_room(&f->tx, 4000, RING_BYTES), RING_YES);
    atomic_store(&f->tail.tail, 3776); /* the tail moves back */
    assert_int_equal(ring_tx_room(&f->tx, 8000, RING_BYTES), RING_BAD);
}

#define THREAD_ENTRIES 200000u

static void *writer(void *arg)
{
    struct fixture *f = arg;
    for (uint64_t n = 0; n < THREAD_ENTRIES; n++)
        while (!put(&f->tx, n))
            sched_yield();
    return NULL;
}

static void test_two_threads(void **state)
{
    struct fixture *f = *state;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, writer, f), 0);
    for (uint64_t n = 0; n < THREAD_ENTRIES; n++) {
        int got;
        while ((got = take(&f->rx, n)) == 0)
            sched_yield();
        assert_int_equal(got, 1);
    }
    pthread_join(thread, NULL);
    assert_int_equal(take(&f->rx, THREAD_ENTRIES), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_order_and_wrap, setup, teardown),
        cmocka_unit_test_setup_teardown(test_full_and_room_again, setup, teardown),
        cmocka_unit_test_setup_teardown(test_leftovers_are_no_entries, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hostile_words, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hostile_tails, setup, teardown),
        cmocka_unit_test_setup_teardown(test_two_threads, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
