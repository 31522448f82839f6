/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of tools/order share: profiles of a text, random numbers, and checks. */
#ifndef TRYST_TESTS_TOOLS_ORDER_CHECK_H
#define TRYST_TESTS_TOOLS_ORDER_CHECK_H

#include "support/unit.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "tools/order/order_profile.h"

#define NODES(text) "{\"tryst_profile\":1,\"nodes\":[" text "]}"

static inline struct order_profile *profile_parse(const char *text)
{
    char path[] = "/tmp/tryst_order_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    struct order_profile *profile = order_profile_open(path);
    unlink(path);
    if (!profile)
        fail_msg("%s", text);
    return profile;
}

static inline unsigned drawn(uint64_t *seed, uint64_t below)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)((*seed >> 33) % below);
}

static inline void near(double value, double wanted)
{
    if (fabs(value - wanted) > 1e-9)
        fail_msg("%.17g is not %.17g", value, wanted);
}

#endif
