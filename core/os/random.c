/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers; sources of the algorithms are named in random.h. */
#include "core/os/random.h"

#include <assert.h>
#include <errno.h>
#include <sys/random.h>

__extension__ typedef unsigned __int128 uint128;

static uint64_t rotate_left(uint64_t x, int by)
{
    return (x << by) | (x >> (64 - by));
}

static uint64_t splitmix64(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

void random_seed(struct random *random, uint64_t seed)
{
    for (int i = 0; i < 4; i++)
        random->state[i] = splitmix64(&seed);
}

uint64_t random_u64(struct random *random)
{
    uint64_t *s = random->state;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

/* Return the high half of u64 × below. Low halves under 2^64 mod below would favour some
 * results, so these numbers are drawn again. */
uint64_t random_range(struct random *random, uint64_t below)
{
    assert(below > 0);
    uint128 product = (uint128)random_u64(random) * below;
    if ((uint64_t)product < below) {
        uint64_t unfair = -below % below;
        while ((uint64_t)product < unfair)
            product = (uint128)random_u64(random) * below;
    }
    return (uint64_t)(product >> 64);
}

double random_unit(struct random *random)
{
    return (double)(random_u64(random) >> 11) * 0x1.0p-53;
}

tryst_status random_secret(void *secret_p, size_t bytes)
{
    unsigned char *out = secret_p;
    while (bytes > 0) {
        ssize_t got = getrandom(out, bytes, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return TRYST_E_SYSTEM;
        out += got;
        bytes -= (size_t)got;
    }
    return TRYST_OK;
}
