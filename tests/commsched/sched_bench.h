/* SPDX-License-Identifier: Apache-2.0 */
/** @file sched_bench.h
 *  A scheduler on plain structs, with a clock and a start function of the bench's own: what the tests of its policy share.
 *  Transfer number 0 is 'a' in texts, 1 is 'b'.
 */
#ifndef TESTS_COMMSCHED_SCHED_BENCH_H
#define TESTS_COMMSCHED_SCHED_BENCH_H

#include "commsched/sched/sched.h"
#include "support/fake_clock.h"
#include "support/unit.h"

enum { LANES = 5, RAILS = 2, TRANSFERS = 12, SLICE_MAX = 60 };

struct sched_bench {
    struct clock_fake clock;
    struct sched *sched;
    struct dispatch_lane lanes[LANES];
    struct transfer transfers[TRANSFERS];
    char started[256];   /* which transfer started a slice, 'a' the first; in order */
    int again;           /* so many starts answer AGAIN */
    uint64_t number;     /* of random transfers */
    bool refused[LANES]; /* since this run began: the lane's turn is over */
    uint64_t window;
    uint64_t bytes_of[URGENCY_CLASSES]; /* that were started */
};
extern struct sched_bench t;

static inline struct urgency urgent(int32_t priority, uint64_t number)
{
    return (struct urgency){urgency_rank(URGENCY_TRAINING, priority), 0, number};
}

static inline struct urgency background(int32_t priority, uint64_t number)
{
    return (struct urgency){urgency_rank(URGENCY_BACKGROUND, priority), 0, number};
}

/** True if this one could start a slice, as far as its receiver and its lane's window go. */
bool may_start(const struct transfer *transfer);
/** Start a slice, the scheduler's function: fails the test if a more urgent one could have started. */
tryst_status bench_start(struct transfer *transfer);

/** Open the scheduler with all lanes ready, lane i on rail i % RAILS. */
void begin(uint64_t window, uint64_t rail_window);
/** Close it: nothing is in flight. */
void end(void);

/** Add transfer `which` with `posted` slices posted. */
void add_urgent(int which, int lane, uint64_t bytes, uint32_t slice_bytes,
                uint32_t posted, struct urgency urgency);
/** First come, first served. */
void add(int which, int lane, uint64_t bytes, uint32_t slice_bytes, uint32_t posted);
/** Run once; t.started has the slices. */
void run_once(void);
/** Run once: slices of exactly these transfers start. */
void run(const char *wanted);
/** Return the window of `slices` slices. */
void credit(int which, int slices);
/** Let time pass, and the scheduler judge its peers. */
void advance(uint64_t ns);
void post(int which, uint32_t posted);
/** Pace a lane: it has `bytes_per_s` while it measures its base. */
void pace_set(int lane, uint64_t bytes_per_s);
/** Expect what holds the transfer, and which one is before it (negative: none). */
void expect_held(int which, enum transfer_hold wanted, int before);

#endif
