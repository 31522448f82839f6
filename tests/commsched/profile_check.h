/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles of a text and as a text, and checks of their nodes. */
#ifndef TRYST_TESTS_COMMSCHED_PROFILE_CHECK_H
#define TRYST_TESTS_COMMSCHED_PROFILE_CHECK_H

#include "support/unit.h"

#include <math.h>
#include <string.h>

#include "commsched/profile/profile_json.h"
#include "core/memory/alloc.h"

/** Read a profile; "p" is its name in errors. */
static inline tryst_status profile_read(const char *text, struct err *err,
                                        tryst_profile **profile_p)
{
    struct source source = {text, strlen(text), "p", err};
    return profile_json_read(&source, profile_p);
}

/** Return the profile as JSON, for mem_free. NULL: out of memory. */
static inline char *profile_text(const tryst_profile *profile)
{
    struct text text = {0};
    struct err err = ERR_INIT;
    char *json = NULL;
    profile_json_write(profile, &text);
    return text_release(&text, &err, &json) == TRYST_OK ? json : NULL;
}

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
