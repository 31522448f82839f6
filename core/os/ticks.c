/* SPDX-License-Identifier: Apache-2.0 */
#include "ticks.h"

#if defined(__x86_64__)
#include <cpuid.h>

/* CPUID 0x80000007, EDX: the rate of the counter is constant in all states. */
#define POWER_LEAF 0x80000007u
enum { INVARIANT_BIT = 8 };

bool ticks_are_steady(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(POWER_LEAF, &a, &b, &c, &d) && (d >> INVARIANT_BIT & 1);
}
#else
bool ticks_are_steady(void)
{
    return true;
}
#endif
