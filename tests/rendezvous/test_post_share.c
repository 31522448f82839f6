/* SPDX-License-Identifier: Apache-2.0 */
/* How many slices may be posted for each of several senders, as a table. */
#include "rendezvous/protocol/recv_run.h"

#include "support/unit.h"

/* Return the number of slices that fit, posted one by one. */
static uint32_t slots_that_fit(uint64_t window, uint32_t senders, uint64_t slice)
{
    uint32_t slots = 0;
    while (slots < 1000 &&
           post_share_has_room(window, senders, slots, slots * slice, slice))
        slots++;
    return slots;
}

static void test_slots(void **state)
{
    static const struct {
        uint64_t window_bytes;
        uint32_t senders;
        uint64_t slice_bytes;
        uint32_t slots;
    } rows[] = {
        {1 << 20, 1, 64 << 10, 16},   {1 << 20, 2, 64 << 10, 8},
        {1 << 20, 3, 64 << 10, 5},    {1 << 20, 8, 64 << 10, 2},
        {1 << 20, 100, 64 << 10, 2},  {0, 1, 64 << 10, 2},
        {1 << 20, 0, 64 << 10, 16},   {1ull << 60, 1, 1, 1000},
        {16 << 20, 7, 128 << 10, 18},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        assert_int_equal(
            slots_that_fit(rows[i].window_bytes, rows[i].senders, rows[i].slice_bytes),
            rows[i].slots);
}

/* Slices of other sizes count by their bytes. */
static void test_sizes(void **state)
{
    (void)state;
    assert_true(post_share_has_room(16 << 20, 1, 64, 64 * (64u << 10), 1 << 20));
    assert_false(post_share_has_room(16 << 20, 1, 3, 16 << 20, 64 << 10));
    assert_true(post_share_has_room(16 << 20, 1, 1, 16 << 20, 64 << 10));
}

/* All peers together have one window, or two slices each. */
static void test_sum(void **state)
{
    (void)state;
    for (uint32_t senders = 1; senders <= 64; senders++) {
        for (uint64_t window = 0; window <= 8 << 20; window += 100000) {
            uint64_t slots = slots_that_fit(window, senders, 64 << 10);
            assert_true(slots * senders * (64 << 10) <= window ||
                        slots == POST_SHARE_LEAST);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slots),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_sum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
