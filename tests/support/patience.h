/* SPDX-License-Identifier: Apache-2.0 */
/* How long a test has been waiting, as far as it was let run.
 *
 * One idea: a wait of a test looks at the clock every few milliseconds. Where two looks are further
 * apart, the test itself stood still (a virtual machine that is not scheduled stands still for seconds,
 * and its clock goes on), and so, likely, did whom it waits for; such a gap counts as PATIENCE_STEP. */
#ifndef TRYST_TESTS_PATIENCE_H
#define TRYST_TESTS_PATIENCE_H

#include <stdint.h>

#include "core/clock.h"

#define PATIENCE_STEP (100 * NS_PER_MS)

struct patience {
    uint64_t seen_ns, spent_ns;
};

static inline struct patience patience_begin(void)
{
    return (struct patience){.seen_ns = clock_monotonic_ns()};
}

/* Look: how long since the beginning. */
static inline uint64_t patience_spent_ns(struct patience *patience)
{
    uint64_t now_ns = clock_monotonic_ns(), step_ns = now_ns - patience->seen_ns;
    patience->seen_ns = now_ns;
    patience->spent_ns += step_ns < PATIENCE_STEP ? step_ns : PATIENCE_STEP;
    return patience->spent_ns;
}

#endif
