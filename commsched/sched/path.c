/* SPDX-License-Identifier: Apache-2.0 */
/* Bandwidth and round trip of a path, and what follows from them; path.h says how. */
#include "path.h"

#include <string.h>

#include "core/os/clock.h"

/** A round trip that was measured so long ago gives way to a new one, */
#define RTT_AGE_NS (10 * NS_PER_S)
/** for which so many slices go alone. */
enum { ALONE_SLICES = 3 };
/** A slice is what the path moves in so long. */
#define SLICE_NS 1300000ull
/** B grows no more after so many rounds that raised it by less than a quarter. */
enum { FLAT_ROUNDS = 3 };

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* ---- what follows ------------------------------------------------------------------------- */

static uint64_t bytes_in(uint64_t bytes_per_s, uint64_t ns)
{
    return (uint64_t)((double)bytes_per_s * (double)ns * 1e-9);
}

/** The largest power of two that moves at this rate in SLICE_NS, between DISPATCH_SLICE_MIN and `largest`. */
static uint64_t slice_for(uint64_t bytes_per_s, uint64_t largest)
{
    uint64_t slice_bytes = DISPATCH_SLICE_MIN;
    uint64_t most = bytes_in(bytes_per_s, SLICE_NS);
    while (slice_bytes < largest && 2 * slice_bytes <= most)
        slice_bytes *= 2;
    return slice_bytes;
}

/** The round trip of a slice of `bytes` that went alone and took `spent_ns`, without the bytes. */
static uint64_t rtt_for(const struct path *path, uint64_t spent_ns, uint64_t bytes)
{
    double own_ns = (double)bytes / (double)path->bytes_per_s * 1e9;
    return (double)spent_ns > own_ns ? spent_ns - (uint64_t)own_ns : 0;
}

/** How much of B RTT is to be in flight: all; more while B still grows, and in two rounds of as many as samples
 *  count, to see whether it would. Never more for long: where many send to one, each one's round trip is
 *  mostly the others' windows, and all would grow by it. */
static double gain(const struct path *path)
{
    if (path->flat_rounds < FLAT_ROUNDS)
        return 2.5;
    return path->rates_next % PATH_RATES < 2 ? 1.25 : 1;
}

/** One slice and what moves in a round trip, in whole slices; `first`: before the round trip is known. */
static uint64_t window_for(const struct path *path, uint64_t trip_bytes, uint64_t first)
{
    uint64_t slice_bytes = larger(path->slice_bytes, path->cut_bytes);
    uint64_t slices = 1 + (trip_bytes + slice_bytes - 1) / slice_bytes;
    uint64_t bytes = slice_bytes * larger(2, slices);
    bytes = larger(larger(bytes, path->least_window_bytes), first);
    return bytes < PATH_WINDOW_MAX ? bytes : PATH_WINDOW_MAX;
}

static void measured_follow(struct path *path)
{
    if (path->bytes_per_s)
        path->rtt_ns = rtt_for(path, path->alone_ns, path->alone_bytes);
    path->slice_bytes = path->bytes_per_s
                            ? slice_for(path->bytes_per_s, DISPATCH_SLICE_MAX)
                            : DISPATCH_SLICE_FIRST;
    double trip_bytes = (double)bytes_in(path->bytes_per_s, path->rtt_ns) * gain(path);
    path->window_bytes =
        window_for(path, (uint64_t)trip_bytes, path->bytes_per_s ? 0 : PATH_WINDOW_FIRST);
}

static void pace_follow(struct path *path)
{
    uint64_t rate = path->pace_bytes_per_s;
    path->slice_bytes = slice_for(rate, DISPATCH_SLICE_PACED);
    path->window_bytes = window_for(path, bytes_in(rate, path->pace_trip_ns),
                                    path->pace_trip_ns ? 0 : 4 * path->slice_bytes);
}

static void path_follow(struct path *path)
{
    if (path->pace_bytes_per_s)
        pace_follow(path);
    else
        measured_follow(path);
    if (path->set_window_bytes)
        path->window_bytes = path->set_window_bytes;
}

void path_pace(struct path *path, uint64_t bytes_per_s, uint64_t trip_ns)
{
    path->pace_bytes_per_s = bytes_per_s;
    path->pace_trip_ns = trip_ns;
    path->drains &= !bytes_per_s;
    path_follow(path);
}

void path_open(struct path *path, uint64_t set_window_bytes, uint64_t least_window_bytes)
{
    memset(path, 0, sizeof *path);
    path->set_window_bytes = set_window_bytes;
    path->least_window_bytes = least_window_bytes;
    path_follow(path);
}

/* ---- samples ------------------------------------------------------------------------------ */

/** What B must exceed for a sample that the window did not limit. */
static uint64_t known_rate(const struct path *path)
{
    const uint64_t first = DISPATCH_SLICE_FIRST * NS_PER_S / SLICE_NS;
    return path->bytes_per_s ? path->bytes_per_s : first;
}

/** The second largest sample, or the only one: one alone may be a burst that the path let through. */
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

static void rate_take(struct path *path, uint64_t bytes_per_s)
{
    uint64_t before = path->bytes_per_s;
    path->rates[path->rates_next++ % PATH_RATES] = bytes_per_s;
    path->bytes_per_s = rate_estimate(path);
    path->flat_rounds = path->bytes_per_s > before + before / 4
                            ? 0
                            : path->flat_rounds + (path->flat_rounds < FLAT_ROUNDS);
}

/** Was the round trip found long ago, or on a path that was another? Then the next slice leaves alone. */
static bool rtt_is_old(const struct path *path, uint64_t now_ns)
{
    return now_ns > path->alone_at_ns + RTT_AGE_NS ||
           path->bytes_per_s / 2 > path->alone_rate ||
           path->bytes_per_s < path->alone_rate / 2;
}

/** A slice went and nothing else was in flight. Of a few such the fastest counts. */
static void alone_take(struct path *path, uint64_t now_ns, uint64_t spent_ns)
{
    uint64_t bytes = path->round_alone_bytes;
    bool first = rtt_is_old(path, now_ns) || !path->bytes_per_s;
    if (first) {
        path->alone_at_ns = now_ns;
        path->alone_rate = path->bytes_per_s;
        path->alone_left = ALONE_SLICES;
    }
    path->alone_left -= path->alone_left > 0;
    if (first || rtt_for(path, spent_ns, bytes) < path->rtt_ns) {
        path->alone_ns = spent_ns;
        path->alone_bytes = bytes;
    }
}

static void round_take(struct path *path, uint64_t now_ns, uint64_t spent_ns,
                       uint64_t came_bytes)
{
    double ns = (double)larger(larger(spent_ns, path->round_left_ns), 1);
    uint64_t bytes_per_s = (uint64_t)((double)came_bytes * 1e9 / ns);
    bool limited = path->limited && !path->round_alone_bytes;
    bool alone = path->round_alone_bytes && path->bytes_per_s;
    if (limited || (!alone && bytes_per_s > known_rate(path)))
        rate_take(path, bytes_per_s);
    if (path->round_alone_bytes)
        alone_take(path, now_ns, spent_ns);
    path_follow(path);
    path->drains = path->limited && !path->set_window_bytes && !path->pace_bytes_per_s &&
                   path->flat_rounds == FLAT_ROUNDS &&
                   (path->alone_left > 0 || rtt_is_old(path, now_ns));
}

void path_started(struct path *path, uint64_t now_ns, uint64_t started_bytes,
                  uint64_t in_flight_bytes, uint64_t bytes, uint64_t cut_bytes)
{
    if (cut_bytes && cut_bytes != path->cut_bytes) {
        path->cut_bytes = cut_bytes;
        path_follow(path);
    }
    path->drains &= in_flight_bytes > 0;
    if (path->round_ns)
        return;
    path->round_left_ns = in_flight_bytes ? now_ns - path->last_round_ns : 0;
    path->round_ns = path->last_round_ns = now_ns;
    path->round_started = started_bytes + bytes;
    path->round_returned = started_bytes - in_flight_bytes;
    path->round_alone_bytes = in_flight_bytes ? 0 : bytes;
    path->limited = path->disturbed = false;
}

bool path_has_room(const struct path *path, uint64_t in_flight_bytes, uint64_t bytes)
{
    return in_flight_bytes == 0 ||
           (!path->drains && in_flight_bytes + bytes <= path->window_bytes);
}

void path_limited(struct path *path)
{
    path->limited = true;
}

void path_disturbed(struct path *path)
{
    path->disturbed = true;
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
    if (!path->disturbed)
        round_take(path, now_ns, spent_ns, returned - path->round_returned);
    return spent_ns ? spent_ns : 1;
}
