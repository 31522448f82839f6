/* SPDX-License-Identifier: Apache-2.0 */
/* A clock that only the test advances. Pass `&fake.clock` to the code under test.
 * Different threads may advance and read. */
#ifndef TRYST_TESTS_SUPPORT_FAKE_CLOCK_H
#define TRYST_TESTS_SUPPORT_FAKE_CLOCK_H

#include <stdatomic.h>

#include "core/os/clock.h"

struct clock_fake {
    struct clock clock;
    _Atomic uint64_t now_ns;
};

static inline uint64_t clock_fake_now_ns(void *arg)
{
    struct clock_fake *fake = arg;
    /* Acquire, pairs with the release in the advance: a thread that reads the new time
     * also sees the test's writes before the advance. */
    return atomic_load_explicit(&fake->now_ns, memory_order_acquire);
}

/** The record must not move while any code holds its clock. */
static inline void clock_fake_init(struct clock_fake *fake, uint64_t now_ns)
{
    atomic_init(&fake->now_ns, now_ns);
    fake->clock = (struct clock){.now_ns = clock_fake_now_ns, .arg = fake};
}

static inline void clock_fake_advance(struct clock_fake *fake, uint64_t by_ns)
{
    /* Release, pairs with the acquire in clock_fake_now_ns. */
    atomic_fetch_add_explicit(&fake->now_ns, by_ns, memory_order_release);
}

#endif
