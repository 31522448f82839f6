/* SPDX-License-Identifier: Apache-2.0 */
/* Windows and slices that follow a path: path.c against a link with a rate and a round
 * trip, on the test's own clock. The sender starts slices while the window has room, the
 * link moves them one after another, and the DONE of each slice is back a round trip
 * after the last byte has left. */
#include "commsched/sched/path.h"

#include <math.h>
#include <string.h>

#include "core/os/clock.h"
#include "support/unit.h"

enum { UNDER_WAY_MAX = 4096 };

static struct link {
    struct path path;
    double bytes_per_s, rtt_ns;
    uint64_t now_ns;
    uint64_t free_ns; /* time at which the link has moved all started bytes */
    uint64_t started_bytes, in_flight_bytes;
    struct {
        uint64_t bytes, back_ns;
    } ring[UNDER_WAY_MAX];
    uint32_t first, count;
    /* interval of the receiver's polls; 0: it polls all the time */
    uint64_t poll_period_ns;
} l;

static void begin(double bytes_per_s, double rtt_ns, uint64_t set_window_bytes)
{
    memset(&l, 0, sizeof l);
    l.bytes_per_s = bytes_per_s;
    l.rtt_ns = rtt_ns;
    l.now_ns = NS_PER_S;
    path_open(&l.path, set_window_bytes, 0);
}

static void slice_start(uint64_t bytes, uint64_t cut_bytes)
{
    uint32_t at = (l.first + l.count++) % UNDER_WAY_MAX;
    assert_true(l.count <= UNDER_WAY_MAX);
    path_started(&l.path, l.now_ns, l.started_bytes, l.in_flight_bytes, bytes, cut_bytes);
    l.started_bytes += bytes;
    l.in_flight_bytes += bytes;
    l.free_ns = l.free_ns > l.now_ns ? l.free_ns : l.now_ns;
    l.free_ns += (uint64_t)((double)bytes / l.bytes_per_s * 1e9);
    uint64_t back_ns = l.free_ns + (uint64_t)l.rtt_ns;
    if (l.poll_period_ns)
        back_ns = (back_ns / l.poll_period_ns + 1) * l.poll_period_ns;
    l.ring[at].bytes = bytes;
    l.ring[at].back_ns = back_ns;
}

/* Deliver the DONE of the oldest slice. */
static void slice_return(void)
{
    assert_true(l.count > 0);
    bool paused = l.poll_period_ns >= PAUSE_NS && l.ring[l.first].back_ns > l.now_ns;
    if (l.ring[l.first].back_ns > l.now_ns)
        l.now_ns = l.ring[l.first].back_ns;
    l.in_flight_bytes -= l.ring[l.first].bytes;
    l.first = (l.first + 1) % UNDER_WAY_MAX;
    l.count--;
    if (paused)
        path_sample_drop(&l.path);
    (void)path_returned(&l.path, l.now_ns, l.started_bytes, l.in_flight_bytes);
}

/* Send without a pause for `ns`, and return the rate. At the start of each 16 MiB the
 * path gives the slice size. */
static double stream(uint64_t ns)
{
    uint64_t until_ns = l.now_ns + ns, begin_ns = l.now_ns;
    uint64_t moved = l.started_bytes - l.in_flight_bytes, left = 0, cut = 0;
    while (l.now_ns < until_ns) {
        if (!left) {
            left = 16 << 20;
            cut = l.path.slice_bytes;
        }
        if (path_has_room(&l.path, l.in_flight_bytes, cut)) {
            slice_start(cut, cut);
            left -= cut;
        } else {
            path_limited(&l.path);
            slice_return();
        }
    }
    moved = l.started_bytes - l.in_flight_bytes - moved;
    return (double)moved / (double)(l.now_ns - begin_ns) * 1e9;
}

static void drain(void)
{
    while (l.count)
        slice_return();
}

/* Return the window by the rule of path.h, in whole slices. */
static double ideal_window(void)
{
    double slice = (double)l.path.slice_bytes;
    double slices = 1 + ceil(l.bytes_per_s * l.rtt_ns * 1e-9 / slice);
    return slice * (slices > 2 ? slices : 2);
}

#define expect_within(value, low, high)                                            \
    do {                                                                           \
        double value_ = (double)(value);                                           \
        if (!(value_ >= (low) && value_ <= (high)))                                \
            fail_msg("%s is %g, not within %g and %g (rate %g, round trip %g us)", \
                     #value, value_, (double)(low), (double)(high), l.bytes_per_s, \
                     l.rtt_ns * 1e-3);                                             \
    } while (0)

/* From 100 Mbit/s to 400 Gbit/s and from 2 us to 50 ms: the link is full, and the window
 * is not larger than needed. */
static void test_converges(void **state)
{
    static const double rates[] = {12.5e6, 50e6, 1.25e8, 1.25e9, 12.5e9, 50e9};
    static const double trips_us[] = {2, 20, 200, 1000, 10000, 50000};
    (void)state;
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        for (size_t j = 0; j < sizeof trips_us / sizeof *trips_us; j++) {
            if (rates[i] * trips_us[j] * 1e-6 > (double)PATH_WINDOW_MAX / 2)
                continue; /* the window would exceed its limit */
            begin(rates[i], trips_us[j] * 1e3, 0);
            stream((uint64_t)(3e8 + trips_us[j] * 1e3 * 200));
            expect_within(stream(10 * NS_PER_S), 0.95 * rates[i], 1.01 * rates[i]);
            expect_within(l.path.window_bytes, 0.9 * ideal_window(),
                          1.3 * ideal_window());
            expect_within(l.path.bytes_per_s, 0.9 * rates[i], 1.1 * rates[i]);
        }
    }
}

static void test_slices(void **state)
{
    static const struct {
        double bytes_per_s;
        uint64_t slice_bytes;
    } table[] = {{12.5e6, 64 << 10}, {50e6, 64 << 10},  {1.25e8, 128 << 10},
                 {3e8, 256 << 10},   {1.25e9, 1 << 20}, {12.5e9, 1 << 20}};
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        begin(table[i].bytes_per_s, 50e3, 0);
        assert_int_equal(l.path.slice_bytes, SCHED_SLICE_FIRST);
        stream(NS_PER_S / 2);
        assert_int_equal(l.path.slice_bytes, table[i].slice_bytes);
    }
}

/* The path becomes a hundred times faster, and then slower again. */
static void test_recovers(void **state)
{
    (void)state;
    begin(12.5e6, 5e6, 0);
    stream(NS_PER_S);
    l.bytes_per_s = 1.25e9;
    stream(NS_PER_S);
    expect_within(stream(NS_PER_S / 5), 0.95 * l.bytes_per_s, 1.01 * l.bytes_per_s);
    l.bytes_per_s = 12.5e6;
    stream(15 * NS_PER_S);
    expect_within(l.path.window_bytes, 0.9 * ideal_window(), 1.4 * ideal_window());
}

/* A receiver that polls only every 50 ms, because it computes, does not lower the
 * estimate of the path. */
static void test_pauses(void **state)
{
    (void)state;
    begin(1.25e9, 100e3, 0);
    stream(NS_PER_S / 10);
    uint64_t window_bytes = l.path.window_bytes;
    drain();
    l.poll_period_ns = 50 * NS_PER_MS;
    stream(5 * NS_PER_S);
    assert_true(l.path.window_bytes >= window_bytes);
}

/* A receiver that polls every 1.9 ms does not count as paused; the window still grows
 * until the link is full. */
static void test_short_pauses(void **state)
{
    (void)state;
    begin(1.25e9, 50e3, 0);
    l.poll_period_ns = 1900 * NS_PER_US;
    stream(NS_PER_S / 2);
    expect_within(stream(NS_PER_S / 2), 0.5 * l.bytes_per_s, 1.01 * l.bytes_per_s);
}

/* A sender with little to send (app-limited) does not lower the estimated rate. */
static void test_little(void **state)
{
    (void)state;
    begin(1.25e9, 100e3, 0);
    stream(NS_PER_S / 10);
    uint64_t rate = l.path.bytes_per_s;
    for (int i = 0; i < 100; i++) {
        drain();
        slice_start(8192, 0);
        drain();
        l.now_ns += 10 * NS_PER_MS;
    }
    assert_int_equal(l.path.bytes_per_s, rate);
}

/* A window that the user has set stays; the window that a rail requests is the
 * minimum. */
static void test_set(void **state)
{
    (void)state;
    begin(12.5e6, 50e3, 3 << 20);
    assert_int_equal(l.path.window_bytes, 3 << 20);
    stream(2 * NS_PER_S);
    assert_int_equal(l.path.window_bytes, 3 << 20);
    begin(12.5e6, 50e3, 0);
    path_open(&l.path, 0, 8 << 20);
    assert_int_equal(l.path.window_bytes, 8 << 20);
    stream(4 * NS_PER_S);
    assert_int_equal(l.path.window_bytes, 8 << 20);
}

/* A peer cuts larger slices than the path would choose: the window still has room for two
 * of them. */
static void test_cut(void **state)
{
    (void)state;
    begin(12.5e6, 50e3, 0);
    for (int i = 0; i < 100; i++) {
        while (path_has_room(&l.path, l.in_flight_bytes, 1 << 20))
            slice_start(1 << 20, 1 << 20);
        path_limited(&l.path);
        assert_int_equal(l.path.window_bytes, 2 << 20);
        slice_return();
    }
}

/* A cancelled slice is never credited; the next round is a sample again. */
static void test_forgets(void **state)
{
    (void)state;
    begin(1.25e9, 100e3, 0);
    slice_start(65536, 65536);
    path_forget(&l.path);
    l.in_flight_bytes = 0;
    l.count = 0;
    stream(NS_PER_S / 2);
    expect_within(l.path.bytes_per_s, 0.9 * l.bytes_per_s, 1.1 * l.bytes_per_s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_converges),    cmocka_unit_test(test_slices),
        cmocka_unit_test(test_recovers),     cmocka_unit_test(test_pauses),
        cmocka_unit_test(test_short_pauses), cmocka_unit_test(test_little),
        cmocka_unit_test(test_set),          cmocka_unit_test(test_cut),
        cmocka_unit_test(test_forgets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
