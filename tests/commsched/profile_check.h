/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of a profile's nodes. */
#ifndef TRYST_TESTS_COMMSCHED_PROFILE_CHECK_H
#define TRYST_TESTS_COMMSCHED_PROFILE_CHECK_H

#include "support/unit.h"

#include <math.h>
#include <string.h>

#include "tryst/profile.h"

static inline void near(double value, double wanted)
{
    if (fabs(value - wanted) > 1e-9)
        fail_msg("%.17g is not %.17g", value, wanted);
}

/** Check a node; `after` has the names that it comes after, separated by commas. */
static inline void check(const tryst_profile *profile, uint32_t index, const char *name,
                         double amount, const char *after)
{
    char text[256] = "";
    tryst_profile_node node = {.struct_size = sizeof node}, before = node;
    assert_int_equal(tryst_profile_node_get(profile, index, &node), TRYST_OK);
    assert_string_equal(node.name, name);
    near(node.is_operation ? (double)node.bytes : node.seconds, amount);
    for (uint32_t i = 0; i < node.after_count; i++) {
        assert_int_equal(tryst_profile_node_get(profile, node.after[i], &before),
                         TRYST_OK);
        strcat(text, i ? "," : "");
        strcat(text, before.name);
    }
    assert_string_equal(text, after);
}

#endif
