/* SPDX-License-Identifier: Apache-2.0 */
/* Seeded random numbers by position: number i of a stream is a pure function of the
 * stream's name and i, so any rank can compute any number alone. pipeline/model/README.md
 * has the formula. */
#ifndef TRYST_PIPELINE_BASE_RANDOM_H
#define TRYST_PIPELINE_BASE_RANDOM_H

#include <stdint.h>

/** splitmix64's increment (2^64 / golden ratio) and finaliser: Steele, Lea and Flood,
 *  2014. */
#define RANDOM_GOLDEN UINT64_C(0x9e3779b97f4a7c15)

static inline uint64_t random_mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/** Return the stream with the name (seed, a, b). */
static inline uint64_t random_stream(uint64_t seed, uint64_t a, uint64_t b)
{
    uint64_t stream = random_mix(seed + RANDOM_GOLDEN);
    stream = random_mix(stream + a + RANDOM_GOLDEN);
    return random_mix(stream + b + RANDOM_GOLDEN);
}

/** Return number `index` of `stream`: 64 random bits. */
static inline uint64_t random_at(uint64_t stream, uint64_t index)
{
    return random_mix(stream + (index + 1) * RANDOM_GOLDEN);
}

/** Map random bits uniformly to [-1, 1). Uses the upper 24 bits, so the value is exact in
 *  fp32. */
static inline float random_signed_unit(uint64_t bits)
{
    return ((float)(bits >> 40) - 8388608.0f) / 8388608.0f;
}

/** Map random bits uniformly to [0, bound): the upper half of a 128-bit product (Lemire's
 *  method without rejection: the bias is below bound / 2^64). */
static inline uint64_t random_below(uint64_t bits, uint64_t bound)
{
    __extension__ typedef unsigned __int128 wide;
    return (uint64_t)(((wide)bits * bound) >> 64);
}

#endif
