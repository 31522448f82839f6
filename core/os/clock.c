/* SPDX-License-Identifier: Apache-2.0 */
/* The machine's clocks; see clock.h. */
#include "core/os/clock.h"

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
