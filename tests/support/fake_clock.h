/* SPDX-License-Identifier: Apache-2.0 */
/* A clock that stands still until the test moves it. Give `&fake.clock` to the code under test.
 * Advancing and reading may happen in different threads. */
#ifndef TESTS_SUPPORT_FAKE_CLOCK_H
#define TESTS_SUPPORT_FAKE_CLOCK_H

#include <stdatomic.h>

#include "core/os/clock.h"

struct clock_fake {
    struct clock clock;
    _Atomic uint64_t now_ns;
};

static inline uint64_t clock_fake_now_ns(void *arg)
{
    struct clock_fake *fake = arg;
    /* acquire: partner of the advance's release, so that what the test did before it
     * moved the clock is seen by whoever sees the new time */
    return atomic_load_explicit(&fake->now_ns, memory_order_acquire);
}

/* The record must stay where it is while anyone holds its clock. */
static inline void clock_fake_init(struct clock_fake *fake, uint64_t now_ns)
{
    atomic_init(&fake->now_ns, now_ns);
    fake->clock = (struct clock){.now_ns = clock_fake_now_ns, .arg = fake};
}

static inline void clock_fake_advance(struct clock_fake *fake, uint64_t by_ns)
{
    /* release: partner of clock_fake_now_ns's acquire */
    atomic_fetch_add_explicit(&fake->now_ns, by_ns, memory_order_release);
}

#endif
