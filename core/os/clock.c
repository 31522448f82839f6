/* SPDX-License-Identifier: Apache-2.0 */
/* The machine's clocks and the fake one; see clock.h. */
#include "core/clock.h"

#include <assert.h>
#include <time.h>

static uint64_t machine_ns(clockid_t which)
{
    struct timespec now;
    int failed = clock_gettime(which, &now);
    assert(!failed); /* these clocks always exist on Linux */
    (void)failed;
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

uint64_t clock_monotonic_ns(void)
{
    return machine_ns(CLOCK_MONOTONIC);
}

uint64_t clock_monotonic_coarse_ns(void)
{
    return machine_ns(CLOCK_MONOTONIC_COARSE);
}

uint64_t clock_wall_ns(void)
{
    return machine_ns(CLOCK_REALTIME);
}

static uint64_t fake_now_ns(void *arg)
{
    struct clock_fake *fake = arg;
    /* acquire: partner of the advance's release, so that what the test did before it
     * moved the clock is seen by whoever sees the new time */
    return atomic_load_explicit(&fake->now_ns, memory_order_acquire);
}

void clock_fake_init(struct clock_fake *fake, uint64_t now_ns)
{
    atomic_init(&fake->now_ns, now_ns);
    fake->clock = (struct clock){.now_ns = fake_now_ns, .arg = fake};
}

void clock_fake_advance(struct clock_fake *fake, uint64_t by_ns)
{
    /* release: partner of fake_now_ns's acquire */
    atomic_fetch_add_explicit(&fake->now_ns, by_ns, memory_order_release);
}
