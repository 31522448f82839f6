/* SPDX-License-Identifier: Apache-2.0 */
/* Time as a parameter.
 *
 * One idea: code that needs the time takes a `const struct clock *`, where NULL is the
 * machine's own monotonic clock, so schedulers, deadlines and rate limits run on a fake
 * clock in tests. Invariant: a clock never goes back. */
#ifndef TRYST_CORE_OS_CLOCK_H
#define TRYST_CORE_OS_CLOCK_H

#include <stdint.h>

#define NS_PER_US UINT64_C(1000)
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S  UINT64_C(1000000000)

struct clock {
    uint64_t (*now_ns)(void *arg);
    void *arg;
};

/** Read CLOCK_MONOTONIC, which is the same for all processes of a machine, but not for
 *  two machines. */
uint64_t clock_monotonic_ns(void);

/** Read CLOCK_MONOTONIC as of the kernel's last tick, at most some milliseconds old, at a
 *  quarter of the cost. */
uint64_t clock_monotonic_coarse_ns(void);

/** Read CLOCK_REALTIME, nanoseconds since 1970, to compare times of different machines;
 *  this clock may jump. */
uint64_t clock_wall_ns(void);

static inline uint64_t clock_now_ns(const struct clock *clock)
{
    return clock ? clock->now_ns(clock->arg) : clock_monotonic_ns();
}

static inline uint64_t clock_coarse_ns(const struct clock *clock)
{
    return clock ? clock->now_ns(clock->arg) : clock_monotonic_coarse_ns();
}

/** Return the time from `then_ns` to `now_ns`; 0 if `then_ns` is the later one, because
 *  `now_ns` was read first or from the coarse clock. */
static inline uint64_t clock_since_ns(uint64_t then_ns, uint64_t now_ns)
{
    return now_ns > then_ns ? now_ns - then_ns : 0;
}

#endif
