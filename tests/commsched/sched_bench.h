/* SPDX-License-Identifier: Apache-2.0 */
/** @file sched_bench.h
 *  A scheduler on plain structs, with the bench's own clock and start function, for the
 *  tests of the scheduler's policy. Texts call transfer number 0 'a', number 1 'b'.
 */
#ifndef TRYST_TESTS_COMMSCHED_SCHED_BENCH_H
#define TRYST_TESTS_COMMSCHED_SCHED_BENCH_H

#include "commsched/sched/sched.h"
#include "support/fake_clock.h"
#include "support/unit.h"

enum { LANES = 5, RAILS = 2, TRANSFERS = 12, SLICE_MAX = 60 };

struct sched_bench {
    struct clock_fake clock;
    struct sched *sched;
    struct sched_lane lanes[LANES];
    struct transfer transfers[TRANSFERS];
    char started[256]; /**< letters of the transfers that started slices, in order */
    int again;         /**< number of starts that will return AGAIN */
    uint64_t number;   /**< number of the next random transfer */
    /** Lanes whose start was refused in this run, so that their turn is over. */
    bool refused[LANES];
    uint64_t window, rail_window;
    uint64_t bytes_of[URGENCY_CLASSES]; /**< bytes that were started, by class */
};
extern struct sched_bench t;

static inline struct urgency urgent(int32_t priority, uint64_t number)
{
    return (struct urgency){urgency_sort_key(URGENCY_TRAINING, priority), 0, number};
}

static inline struct urgency background(int32_t priority, uint64_t number)
{
    return (struct urgency){urgency_sort_key(URGENCY_BACKGROUND, priority), 0, number};
}

/** True if the transfer could start a slice: the slice is posted and fits the lane's
 *  window and, on probation, half of the rail's. */
bool may_start(const struct transfer *transfer);
/** The scheduler's start function: fail if a more urgent transfer could have started. */
tryst_status bench_start(struct transfer *transfer);

/** Open the scheduler with all lanes ready, lane i on rail i % RAILS. */
void begin(uint64_t window, uint64_t rail_window);
/** Close the scheduler, which must have nothing in flight. */
void end(void);

/** Add transfer `which` with `posted` slices posted. */
void add_urgent(int which, int lane, uint64_t bytes, uint32_t slice_bytes,
                uint32_t posted, struct urgency urgency);
/** Add a transfer whose urgency is its order of submission. */
void add(int which, int lane, uint64_t bytes, uint32_t slice_bytes, uint32_t posted);
/** Run once; t.started has the letters of the slices. */
void run_once(void);
/** Run once, and fail unless slices of exactly these transfers start. */
void run(const char *wanted);
/** Return credit for `slices` slices. */
void credit(int which, int slices);
/** Let time pass, and let the scheduler detect stalled peers. */
void advance(uint64_t ns);
void post(int which, uint32_t posted);
/** Fail unless `wanted` holds the transfer, behind transfer `before` (negative: behind
 *  none). */
void expect_held(int which, enum transfer_hold wanted, int before);

#endif
