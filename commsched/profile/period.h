/* SPDX-License-Identifier: Apache-2.0 */
/** @file period.h
 *  What was recorded of one period of the training.
 *
 *  A period is the time from the first submission of one training step to the first
 *  submission of the next one (recorder.h). Its *marks* are the submissions, the first
 *  uses of operations, and the places where a thread names its computation, in the order
 *  of time. Between two marks of a thread lies an action of computation; its duration is
 *  the time between the marks less the thread's time inside waits.
 *
 *  Times are ticks (core/os/ticks.h), or nanoseconds of the clock.
 *  Invariant: the marks of one thread are in the order of time.
 */
#ifndef TRYST_COMMSCHED_PROFILE_PERIOD_H
#define TRYST_COMMSCHED_PROFILE_PERIOD_H

#include "profile.h"

/** The most operations of a period: 3.7 MB. A period with more is not whole. */
enum { PERIOD_OPS_MAX = 1 << 15 };
/** The most threads that may submit operations or use them. */
enum { PERIOD_THREADS_MAX = 64 };
#define PERIOD_NONE UINT32_MAX

struct period_op {
    uint32_t name;   /**< index of its name */
    uint32_t thread; /**< that submitted it; PERIOD_NONE: a callback */
    uint32_t cause;  /**< its callback submitted this one; PERIOD_NONE: none */
    /** The mark of its first use, if that is its callback; PERIOD_NONE: it is not. */
    uint32_t callback_mark;
    uint64_t step;
    uint64_t bytes;
    uint64_t at[PROFILE_TIMES]; /**< 0: not recorded */
};

enum period_mark_kind {
    PERIOD_SUBMITTED,
    PERIOD_USED,
    PERIOD_NAMED,
    PERIOD_DROPPED /* a callback that was no use after all */
};

struct period_mark {
    uint64_t at;
    uint64_t blocked; /**< the thread's time inside waits, since its first mark */
    uint32_t what;    /**< the operation; PERIOD_NAMED: the name from here on, or none */
    uint16_t thread;  /**< below PERIOD_THREADS_MAX, or PERIOD_NO_THREAD */
    uint16_t kind;
};
enum { PERIOD_NO_THREAD = UINT16_MAX };

struct period {
    uint64_t serial; /**< 0: nothing was recorded here yet */
    bool is_whole;   /**< nothing is missing */
    uint64_t begin_at, end_at, begin_ns, end_ns;
    struct period_op *ops;
    struct period_mark *marks;
    size_t ops_room, marks_room;
    uint32_t ops_count, marks_count;
    /** Each thread's time inside waits at begin and end. */
    uint64_t blocked_begin[PERIOD_THREADS_MAX], blocked_end[PERIOD_THREADS_MAX];
    /** The name of each thread's computation at the begin; PERIOD_NONE: none. */
    uint32_t named_begin[PERIOD_THREADS_MAX];
};

/** Begin a period: forget what was recorded here before, and keep the memory. */
void period_begin(struct period *period, uint64_t serial, uint64_t at, uint64_t ns);
/** Free the memory. */
void period_close(struct period *period);

/** Add an operation. PERIOD_NONE: no memory, or too many; the period is not whole any
 *  more. */
uint32_t period_op_add(struct period *period, const struct period_op *op);
/** Add a mark, and return its index. PERIOD_NONE: no memory; the period is not whole any
 *  more. */
uint32_t period_mark_add(struct period *period, const struct period_mark *mark);

/** True if both periods have the same operations, by name and bytes, in the same order.
 */
bool period_is_like(const struct period *period, const struct period *other);

#endif
