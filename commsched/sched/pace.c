/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A token bucket with debt, and the estimate of the link that scales its rate; pace.h
 * has the idea and its sources.
 */
#include "pace.h"

#include <string.h>

/* The base is measured in LEARN_TRIPS round trips at LEARN_SCALE of the rate, for
 * LEARN_NS at most: on a slow lane, half a second of slices would cost more than a base
 * that is slightly too long. */
enum { LEARN_TRIPS = 6 };
#define LEARN_SCALE 0.25
#define LEARN_NS    (150 * NS_PER_MS)
/* The weight of a new sample in the smoothed queue. */
#define QUEUE_PART 0.5
/* Limits of the scale: a graph that is wrong by more does not describe this network. */
#define SCALE_MIN 0.25
#define SCALE_MAX 2.0
/* The tokens that a byte of background costs; a byte of training costs one. */
#define BACKGROUND_COST (20.0 / 19)
/* The least queue that a window covers: two slices of 1.3 ms, as in path.h, since
 * DONEs come in bunches. */
#define WINDOW_QUEUE_NS (2600 * NS_PER_US)

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

/* ---- the bucket -------------------------------------------------------------------- */

/* Begin to measure the base. */
static void learn(struct pace *pace)
{
    pace->learning = LEARN_TRIPS;
    pace->learning_ns = 0;
    pace->scale = LEARN_SCALE;
    pace->queue_ns = 0;
}

void pace_init(struct pace *pace, const struct pace_plan *plan)
{
    memset(pace, 0, sizeof *pace);
    pace->planned_bytes_per_s = plan->bytes_per_s;
    pace->link_bytes_per_s =
        plan->link_bytes_per_s ? plan->link_bytes_per_s : plan->bytes_per_s;
    pace->tokens = pace->least_tokens = 1;
    pace->random = plan->seed;
    learn(pace);
}

static double rate_of(const struct pace *pace)
{
    return (double)pace->planned_bytes_per_s * pace->scale;
}

uint64_t pace_rate(const struct pace *pace)
{
    return (uint64_t)rate_of(pace);
}

/* Return the most tokens of an idle lane. */
static double burst_of(const struct pace *pace)
{
    return larger(PACE_BURST, rate_of(pace) * PACE_BURST_NS * 1e-9);
}

static double tokens_at(const struct pace *pace, uint64_t now_ns)
{
    double ns = (double)clock_since_ns(pace->tokens_ns, now_ns);
    double tokens =
        pace->tokens_ns ? pace->tokens + rate_of(pace) * ns * 1e-9 : pace->tokens;
    return smaller(tokens, burst_of(pace));
}

uint64_t pace_start_ns(const struct pace *pace, uint64_t now_ns)
{
    double lacking = pace->least_tokens - tokens_at(pace, now_ns);
    return lacking <= 0 ? now_ns : now_ns + 1 + (uint64_t)(lacking / rate_of(pace) * 1e9);
}

/* Add the tokens that arrived until `now_ns`, before the rate changes. */
static void tokens_settle(struct pace *pace, uint64_t now_ns)
{
    pace->tokens = tokens_at(pace, now_ns);
    pace->tokens_ns = now_ns;
}

/* Delay the next start at random, until the bucket has up to half of `bytes` as
 * tokens. The start does not take these tokens. (A linear congruential generator with
 * the constants of Numerical Recipes.) */
static void start_move(struct pace *pace, uint64_t bytes)
{
    pace->random = pace->random * 1664525u + 1013904223u;
    double most = smaller((double)bytes, PACE_BURST) / 2;
    pace->least_tokens = 1 + most * ((double)pace->random * 0x1p-32);
}

/* ---- the link ---------------------------------------------------------------------- */

/* Return the time of `bytes` at the link's rate in the graph. */
static double link_ns(const struct pace *pace, uint64_t bytes)
{
    return (double)bytes / (double)pace->link_bytes_per_s * 1e9;
}

/* Return the target queue. Two slices at least: even without a standing queue, slices
 * of other lanes are in front of a lane's slice. */
static double target_ns(const struct pace *pace)
{
    double bytes = larger(PACE_QUEUE, 2 * (double)pace->timed_bytes);
    return larger(link_ns(pace, (uint64_t)bytes), (double)PACE_QUEUE_NS);
}

static uint64_t base_of(const struct pace *pace)
{
    bool old = pace->base_old_ns && (!pace->base_ns || pace->base_old_ns < pace->base_ns);
    return old ? pace->base_old_ns : pace->base_ns;
}

uint64_t pace_trip_ns(const struct pace *pace)
{
    uint64_t base_ns = base_of(pace);
    double queue_ns =
        larger(larger(target_ns(pace), pace->queue_ns), (double)WINDOW_QUEUE_NS);
    return base_ns ? base_ns + (uint64_t)queue_ns : 0;
}

/* Begin a new age if `now_ns` is in one. All lanes of a host do so at once, and
 * measure their bases again. */
static void age_follow(struct pace *pace, uint64_t now_ns)
{
    uint64_t age = now_ns / PACE_AGE_NS;
    if (age == pace->age)
        return;
    pace->base_old_ns = age == pace->age + 1 ? pace->base_ns : 0;
    pace->base_ns = 0;
    pace->age = age;
    learn(pace);
}

static void scale_follow(struct pace *pace, uint64_t now_ns, double own_ns)
{
    double alone_ns = (double)base_of(pace) + own_ns;
    double scale = (alone_ns + target_ns(pace)) / (alone_ns + pace->queue_ns);
    if (!pace->learning_ns)
        pace->learning_ns = now_ns;
    if (now_ns > pace->learning_ns + LEARN_NS)
        pace->learning = 0;
    pace->learning -= pace->learning > 0;
    if (!pace->learning)
        pace->scale = smaller(larger(scale, SCALE_MIN), SCALE_MAX);
}

/* Record the round trip of the timed slice, which has been acknowledged: update the base,
 * the queue and the scale. */
static void trip_record(struct pace *pace, uint64_t now_ns)
{
    double own_ns = link_ns(pace, pace->timed_bytes);
    double ns = (double)(now_ns - pace->timed_ns) - own_ns;
    uint64_t trip_ns = ns > 1 ? (uint64_t)ns : 1;
    pace->timed_ns = 0;
    if (!pace->base_ns || trip_ns < pace->base_ns)
        pace->base_ns = trip_ns;
    uint64_t base_ns = base_of(pace);
    double queue_ns = (double)(trip_ns - base_ns);
    pace->queue_ns += (queue_ns - pace->queue_ns) * QUEUE_PART;
    scale_follow(pace, now_ns, own_ns);
}

void pace_started(struct pace *pace, uint64_t now_ns, uint64_t started_bytes,
                  uint64_t bytes, uint64_t bytes_per_s, enum urgency_class kind)
{
    double cost = larger((double)pace->planned_bytes_per_s / (double)bytes_per_s, 1);
    tokens_settle(pace, now_ns);
    age_follow(pace, now_ns);
    pace->tokens -=
        (double)bytes * cost * (kind == URGENCY_BACKGROUND ? BACKGROUND_COST : 1);
    start_move(pace, bytes);
    if (pace->timed_ns)
        return;
    pace->timed_ns = now_ns;
    pace->timed_upto = started_bytes + bytes;
    pace->timed_bytes = bytes;
}

bool pace_credited(struct pace *pace, uint64_t now_ns, uint64_t returned_bytes)
{
    if (!pace->timed_ns || returned_bytes < pace->timed_upto)
        return false;
    tokens_settle(pace, now_ns);
    trip_record(pace, now_ns);
    return true;
}

void pace_forget(struct pace *pace)
{
    pace->timed_ns = 0;
}
