/* SPDX-License-Identifier: Apache-2.0 */
/* See hostile.h. */
#include "hostile.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RATE_LEAST 1e-4

struct hostile hostile;

const char *const hostile_kind_names[HOSTILE_KINDS_COUNT] = {
#define KIND(name, text) [HOSTILE_##name] = #name,
    HOSTILE_KINDS(KIND)
#undef KIND
};

uint64_t hostile_below(uint64_t below)
{
    return random_range(&hostile.random, below);
}

/* Draw one of the kinds, a few, or all: the peers give a rank up at the first strike that
 * they notice, so other kinds would hide a rare one. */
static uint32_t kinds_draw(uint32_t all)
{
    uint32_t one;
    do
        one = 1u << hostile_below(HOSTILE_KINDS_COUNT);
    while (!(one & all));
    switch (hostile_below(4)) {
    case 0:
    case 1: return one;
    case 2: return (one | (uint32_t)random_u64(&hostile.random)) & all;
    default: return all;
    }
}

/* Return the kind that TRYST_TEST_KIND names, as a bit; 0: none. */
static uint32_t kind_set(void)
{
    const char *name = getenv("TRYST_TEST_KIND");
    for (unsigned kind = 0; name && kind < HOSTILE_KINDS_COUNT; kind++)
        if (strcmp(hostile_kind_names[kind], name) == 0)
            return 1u << kind;
    return 0;
}

void hostile_draw_run(uint64_t seed, bool shares_memory, _Atomic(uint64_t) *counts_p)
{
    uint32_t words = HOSTILE_BIT(HEADER_WORD) | HOSTILE_BIT(ENTRY) |
                     HOSTILE_BIT(RING_WORD) | HOSTILE_BIT(MAPPED_WORD);
    uint32_t all = (1u << HOSTILE_KINDS_COUNT) - 1;
    hostile = (struct hostile){.counts_p = counts_p};
    random_seed(&hostile.random, seed);
    hostile.kinds = kinds_draw(shares_memory ? all : all & ~words);
    if (kind_set())
        hostile.kinds = kind_set();
    double share = random_unit(&hostile.random);
    hostile.rate = exp(share * share * log(RATE_LEAST));
    if (hostile_below(8) == 0)
        hostile.rate = 1;
}

void hostile_start(void)
{
    hostile.on = true;
}

enum hostile_kind hostile_strike(uint32_t allowed)
{
    uint32_t kinds = allowed & hostile.kinds;
    if (!hostile.on || !kinds || random_unit(&hostile.random) >= hostile.rate)
        return HOSTILE_NONE;
    uint64_t nth = hostile_below((uint64_t)__builtin_popcount(kinds));
    for (unsigned kind = 0; kind < HOSTILE_KINDS_COUNT; kind++) {
        if (!(kinds & 1u << kind) || nth--)
            continue;
        atomic_fetch_add(&hostile.counts_p[kind], 1);
        return (enum hostile_kind)kind;
    }
    return HOSTILE_NONE;
}

uint64_t hostile_extreme(uint64_t old, size_t bytes)
{
    unsigned bits = 8 * (unsigned)bytes;
    uint64_t top = UINT64_C(1) << (bits - 1);
    switch (hostile_below(12)) {
    case 0: return 0;
    case 1: return 1;
    case 2: return UINT64_MAX;
    case 3: return top;
    case 4: return top - 1;
    case 5: return old + 1;
    case 6: return old - 1;
    case 7: return old ^ top;
    case 8: return old * 2;
    case 9: return UINT64_C(1) << hostile_below(bits);
    case 10: return UINT64_C(1) << hostile_below(bits) | old;
    default: return random_u64(&hostile.random);
    }
}

void hostile_field_change(uint8_t *data, size_t bytes)
{
    size_t size = (size_t)1 << hostile_below(4);
    uint64_t value = 0;
    if (bytes < size)
        return;
    size_t at = hostile_below(bytes / size) * size;
    memcpy(&value, data + at, size);
    value = hostile_extreme(value, size);
    memcpy(data + at, &value, size);
}

void hostile_bytes_change(enum hostile_kind kind, uint8_t *data, size_t bytes)
{
    if (!bytes)
        return;
    if (kind == HOSTILE_FIELD) {
        hostile_field_change(data, bytes);
        return;
    }
    for (uint64_t left = 1 + hostile_below(8); left; left--) {
        size_t at = hostile_below(bytes);
        if (kind == HOSTILE_BITS)
            data[at] ^= (uint8_t)(1u << hostile_below(8));
        else
            data[at] = (uint8_t)hostile_below(256);
    }
}

void hostile_stall(void)
{
    struct timespec time = {.tv_nsec = (long)hostile_below(20000000)};
    (void)nanosleep(&time, NULL);
}
