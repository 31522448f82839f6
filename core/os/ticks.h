/* SPDX-License-Identifier: Apache-2.0 */
/* The processor's counter of time, for many readings in a short time.
 *
 * One idea: a reading costs less than half of one of the clock (10 ns for 23 ns on an
 * EPYC). The unit is not known, so the owner of a measurement also reads the clock at its
 * begin and its end. Invariant: if ticks_are_steady, the counters of all processors run
 * at one rate, whatever their frequency, and show one time. */
#ifndef TRYST_CORE_OS_TICKS_H
#define TRYST_CORE_OS_TICKS_H

#include <stdbool.h>
#include <stdint.h>

#include "clock.h"

/** True if ticks measure time on this machine. */
bool ticks_are_steady(void);

/** Read the counter; on processors without a known one, the clock. */
static inline uint64_t ticks_read(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return clock_monotonic_ns();
#endif
}

#endif
