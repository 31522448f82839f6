/* SPDX-License-Identifier: Apache-2.0 */
/* Include this first in every unit test: cmocka with the headers that it needs before it,
 * the seed of random tests, and the walk through failing allocations.
 *
 * A random test prints its seed; TRYST_TEST_SEED=<number> replays it. */
#ifndef TRYST_TESTS_SUPPORT_UNIT_H
#define TRYST_TESTS_SUPPORT_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static inline uint64_t unit_seed(void)
{
    const char *given = getenv("TRYST_TEST_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);
    print_message("TRYST_TEST_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

/** Return how many of `count` drawn or enumerated cases to run: all, but a quarter under
 *  a sanitizer, where each case takes several times as long. */
static inline uint64_t unit_cases(uint64_t count)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return (count + 3) / 4;
#else
    return count;
#endif
}

/** Run `attempt` (an expression of type tryst_status that undoes its effect if it is
 *  TRYST_OK) with its first allocation failing, then its second, … until one run has no
 *  failing allocation. Each failed run must return TRYST_E_NOMEM and free all its memory.
 *  Needs core/memory/alloc.h. */
#define WALK_ALLOCATIONS(attempt)                                                \
    do {                                                                         \
        uint64_t before_ = alloc_live_count();                                   \
        bool came_to_pass_ = true;                                               \
        for (uint64_t nth_ = 1; came_to_pass_; nth_++) {                         \
            alloc_fail_at(nth_);                                                 \
            tryst_status status_ = (attempt);                                    \
            came_to_pass_ = alloc_fail_off();                                    \
            assert_int_equal(status_, came_to_pass_ ? TRYST_E_NOMEM : TRYST_OK); \
            assert_int_equal(alloc_live_count(), before_);                       \
        }                                                                        \
    } while (0)

#endif
