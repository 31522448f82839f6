/* SPDX-License-Identifier: Apache-2.0 */
/* When an idle driver goes to sleep, on the test's own clock. */
#include "rendezvous/progress/idle.h"
#include "support/unit.h"

enum { SPIN = 50000, STEP = 1000, SLEEPS = 4 };

/* Make passes of STEP without work until the driver has slept SLEEPS times, and check the
 * time that it spun before each sleep. Arming always returns `armed`. */
static void spins_before_sleep(uint64_t spin_ns, tryst_status armed,
                               uint64_t spun[SLEEPS])
{
    struct idle idle;
    uint64_t now_ns = 1, since_ns = now_ns + STEP;
    int slept = 0;
    idle_begin(&idle, spin_ns);
    for (int turn = 0; turn < 100000 && slept < SLEEPS; turn++) {
        idle.passes++;
        now_ns += STEP;
        if (!idle_poll(&idle, now_ns) || !idle_sleeps(&idle, spin_ns, armed))
            continue;
        spun[slept++] = now_ns - since_ns;
        since_ns = now_ns + STEP;
    }
    assert_int_equal(slept, SLEEPS);
}

static void test_spins_longer_before_the_first_nap(void **state)
{
    static const struct {
        uint64_t spin_ns;
        tryst_status armed;
        uint64_t spun[SLEEPS];
    } rows[] = {
        {SPIN, TRYST_OK, {SPIN, SPIN, SPIN, SPIN}},
        {SPIN, TRYST_E_UNSUPPORTED, {IDLE_NAP_SPIN_NS, SPIN, SPIN, SPIN}},
        {2 * IDLE_NAP_SPIN_NS,
         TRYST_E_UNSUPPORTED,
         {2 * IDLE_NAP_SPIN_NS, 2 * IDLE_NAP_SPIN_NS, 2 * IDLE_NAP_SPIN_NS,
          2 * IDLE_NAP_SPIN_NS}},
        {0, TRYST_OK, {0, 0, 0, 0}},
        {0, TRYST_E_UNSUPPORTED, {0, 0, 0, 0}}, /* a spin time of 0 means no spinning */
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint64_t spun[SLEEPS];
        spins_before_sleep(rows[i].spin_ns, rows[i].armed, spun);
        for (int n = 0; n < SLEEPS; n++)
            assert_int_equal(spun[n], rows[i].spun[n]);
    }
}

static void test_an_event_begins_anew(void **state)
{
    struct idle idle;
    (void)state;
    idle_begin(&idle, SPIN);
    idle.passes = 1;
    assert_false(idle_poll(&idle, 1));
    assert_true(idle_poll(&idle, 1 + SPIN));
    assert_false(idle_sleeps(&idle, SPIN, TRYST_E_UNSUPPORTED));
    idle_begin(&idle, SPIN);
    idle.passes = 1;
    assert_false(idle_poll(&idle, 2 * SPIN));
    assert_true(idle_poll(&idle, 3 * SPIN));
    /* the end of the long spin does not count */
    assert_false(idle_sleeps(&idle, SPIN, TRYST_E_UNSUPPORTED));
    assert_true(idle_poll(&idle, 2 * SPIN + IDLE_NAP_SPIN_NS));
    assert_true(idle_sleeps(&idle, SPIN, TRYST_E_UNSUPPORTED));
}

static void test_a_pass_with_events_is_not_due(void **state)
{
    struct idle idle;
    (void)state;
    idle_begin(&idle, 0);
    assert_false(idle_poll(&idle, 1));
}

static void test_spins_on_where_there_is_work(void **state)
{
    struct idle idle;
    (void)state;
    idle_begin(&idle, SPIN);
    idle.passes = 1;
    (void)idle_poll(&idle, 1);
    assert_true(idle_poll(&idle, 1 + SPIN));
    assert_false(idle_sleeps(&idle, SPIN, TRYST_AGAIN));
    assert_false(idle_poll(&idle, 2 + SPIN)); /* spins for the same time again */
    assert_true(idle_poll(&idle, 2 + 2 * SPIN));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spins_longer_before_the_first_nap),
        cmocka_unit_test(test_an_event_begins_anew),
        cmocka_unit_test(test_a_pass_with_events_is_not_due),
        cmocka_unit_test(test_spins_on_where_there_is_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
