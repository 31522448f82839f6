/* SPDX-License-Identifier: Apache-2.0 */
/* Bandwidth and round trip of a path, and its slice and window (path.h). */
#include "path.h"

#include <string.h>

#include "core/os/clock.h"

/* The age at which a round trip is measured again. */
#define RTT_AGE_NS (10 * NS_PER_S)
/* Slices that start alone for one measurement; the fastest counts. */
enum { RTT_PROBES = 3 };
/* The time in which the path moves a slice. */
#define SLICE_NS 1300000ull
/* B has stopped growing after this many rounds that raised it by less than a quarter. */
enum { FLAT_ROUNDS = 3 };

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* ---- slice and window -------------------------------------------------------------- */

static uint64_t bytes_in(const struct path *path, uint64_t ns)
{
    return (uint64_t)((double)path->bytes_per_s * (double)ns * 1e-9);
}

/* Return the largest power of two that the path moves in SLICE_NS, between
 * SCHED_SLICE_MIN and SCHED_SLICE_MAX. */
static uint64_t slice_for(const struct path *path)
{
    uint64_t slice_bytes = SCHED_SLICE_MIN;
    uint64_t most = bytes_in(path, SLICE_NS);
    while (slice_bytes < SCHED_SLICE_MAX && 2 * slice_bytes <= most)
        slice_bytes *= 2;
    return slice_bytes;
}

/* Return the round trip of a probe of `bytes` that took `spent_ns`, without the time
 * of the bytes. */
static uint64_t rtt_for(const struct path *path, uint64_t spent_ns, uint64_t bytes)
{
    double own_ns = (double)bytes / (double)path->bytes_per_s * 1e9;
    return (double)spent_ns > own_ns ? spent_ns - (uint64_t)own_ns : 0;
}

/* Return the factor of B RTT that may be in flight: 2.5 while B grows, 1.25 in two
 * rounds of PATH_RATES to probe for more bandwidth, else 1. Not more for long: where
 * many ranks send to one, each round trip is mostly the windows of the others, and
 * all windows would grow. */
static double gain(const struct path *path)
{
    if (path->flat_rounds < FLAT_ROUNDS)
        return 2.5;
    return path->rates_next % PATH_RATES < 2 ? 1.25 : 1;
}

/* Return a window of one slice and the bytes of a round trip in whole slices;
 * PATH_WINDOW_FIRST at least while the bandwidth is unknown. */
static uint64_t window_for(const struct path *path)
{
    uint64_t slice_bytes = larger(path->slice_bytes, path->cut_bytes);
    uint64_t trip_bytes = (uint64_t)((double)bytes_in(path, path->rtt_ns) * gain(path));
    uint64_t slices = 1 + (trip_bytes + slice_bytes - 1) / slice_bytes;
    uint64_t bytes = slice_bytes * larger(2, slices);
    bytes = larger(bytes, path->least_window_bytes);
    bytes = path->bytes_per_s ? bytes : larger(bytes, PATH_WINDOW_FIRST);
    return bytes < PATH_WINDOW_MAX ? bytes : PATH_WINDOW_MAX;
}

static void path_follow(struct path *path)
{
    if (path->bytes_per_s)
        path->rtt_ns = rtt_for(path, path->rtt_probe_ns, path->rtt_probe_bytes);
    path->slice_bytes = path->bytes_per_s ? slice_for(path) : SCHED_SLICE_FIRST;
    path->window_bytes =
        path->set_window_bytes ? path->set_window_bytes : window_for(path);
}

void path_open(struct path *path, uint64_t set_window_bytes, uint64_t least_window_bytes)
{
    memset(path, 0, sizeof *path);
    path->set_window_bytes = set_window_bytes;
    path->least_window_bytes = least_window_bytes;
    path_follow(path);
}

/* ---- samples ----------------------------------------------------------------------- */

/* Return the rate that a sample must exceed to count if the window did not limit it. */
static uint64_t known_rate(const struct path *path)
{
    uint64_t first = SCHED_SLICE_FIRST * NS_PER_S / SLICE_NS;
    return path->bytes_per_s ? path->bytes_per_s : first;
}

/* Return the second largest sample, or the only one: the largest may be a burst. */
static uint64_t rate_estimate(const struct path *path)
{
    uint64_t first = 0, second = 0;
    for (int i = 0; i < PATH_RATES; i++) {
        uint64_t rate = path->rates[i];
        second = larger(second, rate < first ? rate : first);
        first = larger(first, rate);
    }
    return second ? second : first;
}

static void rate_update(struct path *path, uint64_t bytes_per_s)
{
    uint64_t before = path->bytes_per_s;
    path->rates[path->rates_next++ % PATH_RATES] = bytes_per_s;
    path->bytes_per_s = rate_estimate(path);
    path->flat_rounds = path->bytes_per_s > before + before / 4
                            ? 0
                            : path->flat_rounds + (path->flat_rounds < FLAT_ROUNDS);
}

/* True if the round trip must be measured again: it is old, or the bandwidth has
 * halved or doubled since. */
static bool rtt_is_old(const struct path *path, uint64_t now_ns)
{
    return now_ns > path->rtt_probe_at_ns + RTT_AGE_NS ||
           path->bytes_per_s / 2 > path->rtt_probe_rate ||
           path->bytes_per_s < path->rtt_probe_rate / 2;
}

/* Update the round trip from a probe that took `spent_ns`. The fastest of RTT_PROBES
 * counts. */
static void rtt_update(struct path *path, uint64_t now_ns, uint64_t spent_ns)
{
    uint64_t bytes = path->round_probe_bytes;
    bool first = rtt_is_old(path, now_ns) || !path->bytes_per_s;
    if (first) {
        path->rtt_probe_at_ns = now_ns;
        path->rtt_probe_rate = path->bytes_per_s;
        path->rtt_probes_left = RTT_PROBES;
    }
    path->rtt_probes_left -= path->rtt_probes_left > 0;
    if (first || rtt_for(path, spent_ns, bytes) < path->rtt_ns) {
        path->rtt_probe_ns = spent_ns;
        path->rtt_probe_bytes = bytes;
    }
}

static void round_end(struct path *path, uint64_t now_ns, uint64_t spent_ns,
                      uint64_t came_bytes)
{
    double ns = (double)larger(larger(spent_ns, path->round_left_ns), 1);
    uint64_t bytes_per_s = (uint64_t)((double)came_bytes * 1e9 / ns);
    bool limited = path->limited && !path->round_probe_bytes;
    bool alone = path->round_probe_bytes && path->bytes_per_s;
    if (limited || (!alone && bytes_per_s > known_rate(path)))
        rate_update(path, bytes_per_s);
    if (path->round_probe_bytes)
        rtt_update(path, now_ns, spent_ns);
    path_follow(path);
    path->draining = path->limited && !path->set_window_bytes &&
                     path->flat_rounds == FLAT_ROUNDS &&
                     (path->rtt_probes_left > 0 || rtt_is_old(path, now_ns));
}

void path_started(struct path *path, uint64_t now_ns, uint64_t started_bytes,
                  uint64_t in_flight_bytes, uint64_t bytes, uint64_t cut_bytes)
{
    if (cut_bytes && cut_bytes != path->cut_bytes) {
        /* trees of a collective have different slices: most change no window */
        bool counts = larger(cut_bytes, path->cut_bytes) > path->slice_bytes;
        path->cut_bytes = cut_bytes;
        if (counts)
            path_follow(path);
    }
    path->draining &= in_flight_bytes > 0;
    if (path->round_ns)
        return;
    path->round_left_ns = in_flight_bytes ? now_ns - path->last_round_ns : 0;
    path->round_ns = path->last_round_ns = now_ns;
    path->round_started = started_bytes + bytes;
    path->round_returned = started_bytes - in_flight_bytes;
    path->round_probe_bytes = in_flight_bytes ? 0 : bytes;
    path->limited = path->sample_invalid = false;
}

bool path_has_room(const struct path *path, uint64_t in_flight_bytes, uint64_t bytes)
{
    return in_flight_bytes == 0 ||
           (!path->draining && in_flight_bytes + bytes <= path->window_bytes);
}

void path_limited(struct path *path)
{
    path->limited = true;
}

void path_sample_drop(struct path *path)
{
    path->sample_invalid = true;
}

void path_forget(struct path *path)
{
    path->round_ns = 0;
}

uint64_t path_returned(struct path *path, uint64_t now_ns, uint64_t started_bytes,
                       uint64_t in_flight_bytes)
{
    uint64_t returned = started_bytes - in_flight_bytes;
    if (!path->round_ns || returned < path->round_started)
        return 0;
    uint64_t spent_ns = now_ns - path->round_ns;
    path->round_ns = 0;
    if (!path->sample_invalid)
        round_end(path, now_ns, spent_ns, returned - path->round_returned);
    return spent_ns ? spent_ns : 1;
}
