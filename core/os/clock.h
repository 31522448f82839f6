/* SPDX-License-Identifier: Apache-2.0 */
/* Time as something that is handed in.
 *
 * One idea: whoever needs the time takes a `const struct clock *`, and NULL is the
 * machine's own monotonic clock, so schedulers, deadlines and rate limits run under a
 * fake in tests. Invariant: a clock never goes back. Callers: every layer. */
#ifndef TRYST_CORE_CLOCK_H
#define TRYST_CORE_CLOCK_H

#include <stdint.h>

#define NS_PER_US UINT64_C(1000)
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S  UINT64_C(1000000000)

struct clock {
    uint64_t (*now_ns)(void *arg);
    void *arg;
};

/* CLOCK_MONOTONIC: one scale for all processes of a machine, none across machines. */
uint64_t clock_monotonic_ns(void);

/* The same as of the kernel's last tick, some milliseconds old at most; costs a quarter. */
uint64_t clock_monotonic_coarse_ns(void);

/* CLOCK_REALTIME since 1970, to compare moments of different machines; it may jump. */
uint64_t clock_wall_ns(void);

static inline uint64_t clock_now_ns(const struct clock *clock)
{
    return clock ? clock->now_ns(clock->arg) : clock_monotonic_ns();
}

static inline uint64_t clock_coarse_ns(const struct clock *clock)
{
    return clock ? clock->now_ns(clock->arg) : clock_monotonic_coarse_ns();
}

/* How long ago `then_ns` was; 0 where it lies ahead of `now_ns`, which may have been read before it,
 * or from the coarse clock. */
static inline uint64_t clock_since_ns(uint64_t then_ns, uint64_t now_ns)
{
    return now_ns > then_ns ? now_ns - then_ns : 0;
}

#endif
