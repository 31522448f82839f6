/* SPDX-License-Identifier: Apache-2.0 */
#include "support/fake_clock.h"
#include "support/unit.h"

#include "core/os/clock.h"

static void the_machines_clock_goes_forward(void **state)
{
    uint64_t last = clock_now_ns(NULL);
    uint64_t first = last;
    while (last < first + 100 * NS_PER_US) {
        uint64_t now = clock_now_ns(NULL);
        assert_true(now >= last);
        last = now;
    }
}

static void the_wall_clock_knows_the_century(void **state)
{
    uint64_t year_2020_s = 1577836800;
    assert_true(clock_wall_ns() > year_2020_s * NS_PER_S);
}

static void a_fake_stands_still_until_moved(void **state)
{
    struct clock_fake fake;
    clock_fake_init(&fake, 5);
    assert_int_equal(clock_now_ns(&fake.clock), 5);
    assert_int_equal(clock_now_ns(&fake.clock), 5);
    clock_fake_advance(&fake, 3 * NS_PER_S);
    assert_int_equal(clock_now_ns(&fake.clock), 3 * NS_PER_S + 5);
}

static void what_lies_ahead_was_no_time_ago(void **state)
{
    static const struct {
        uint64_t then_ns, now_ns, since_ns;
    } rows[] = {{0, 0, 0},          {5, 7, 2},
                {7, 5, 0},          {0, UINT64_MAX, UINT64_MAX},
                {UINT64_MAX, 0, 0}, {UINT64_MAX, UINT64_MAX, 0}};
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        assert_true(clock_since_ns(rows[i].then_ns, rows[i].now_ns) == rows[i].since_ns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_machines_clock_goes_forward),
        cmocka_unit_test(the_wall_clock_knows_the_century),
        cmocka_unit_test(a_fake_stands_still_until_moved),
        cmocka_unit_test(what_lies_ahead_was_no_time_ago),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
