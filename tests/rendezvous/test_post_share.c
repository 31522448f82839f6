/* SPDX-License-Identifier: Apache-2.0 */
/* How many slices may be posted for each of several senders, as a table. */
#include "rendezvous/protocol/post_share.h"

#include "support/unit.h"

static void test_slots(void **state)
{
    static const struct {
        uint64_t window_bytes;
        uint32_t senders;
        uint64_t slice_bytes;
        uint32_t slots;
    } rows[] = {
        {1 << 20, 1, 64 << 10, 16},     {1 << 20, 2, 64 << 10, 8},
        {1 << 20, 3, 64 << 10, 5},      {1 << 20, 8, 64 << 10, 2},
        {1 << 20, 100, 64 << 10, 2},    {0, 1, 64 << 10, 2},
        {1 << 20, 0, 64 << 10, 16},     {1 << 20, 1, 0, 2},
        {1ull << 60, 1, 1, UINT32_MAX}, {16 << 20, 7, 128 << 10, 18},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        assert_int_equal(
            post_share_slots(rows[i].window_bytes, rows[i].senders, rows[i].slice_bytes),
            rows[i].slots);
}

/* All peers together have one window, or two slices each. */
static void test_sum(void **state)
{
    (void)state;
    for (uint32_t senders = 1; senders <= 64; senders++) {
        for (uint64_t window = 0; window <= 8 << 20; window += 100000) {
            uint64_t slots = post_share_slots(window, senders, 64 << 10);
            assert_true(slots * senders * (64 << 10) <= window ||
                        slots == POST_SHARE_LEAST);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slots),
        cmocka_unit_test(test_sum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
