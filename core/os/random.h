/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers: repeatable ones from a seed, and secret ones from the kernel.
 *
 * One idea: a test, a schedule or an initialisation names its seed and gets the same
 * stream on every machine; tokens and nonces never come from that stream. Invariant: the
 * streams are the same in every version (a test pins their first values). */
#ifndef TRYST_CORE_OS_RANDOM_H
#define TRYST_CORE_OS_RANDOM_H

#include <stddef.h>
#include <stdint.h>

#include "tryst/status.h"

/** xoshiro256** 1.0 of D. Blackman and S. Vigna (2018, public domain,
 *  prng.di.unimi.it), seeded through splitmix64 as they advise. One thread at a time. */
struct random {
    uint64_t state[4];
};

void random_seed(struct random *random, uint64_t seed);
uint64_t random_u64(struct random *random);

/** Draw uniformly from [0, below), without bias; `below` is at least 1. (D. Lemire, "Fast
 *  random integer generation in an interval", 2019.) */
uint64_t random_range(struct random *random, uint64_t below);

/** Draw uniformly from [0, 1), with 53 bits. */
double random_unit(struct random *random);

/** Fill `secret_p` with unpredictable bytes from getrandom(2). Blocks only before the
 *  kernel's pool is ready, once at boot. Returns TRYST_OK, or TRYST_E_SYSTEM with errno
 *  set. */
tryst_status random_secret(void *secret_p, size_t bytes);

#endif
