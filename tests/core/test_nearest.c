/* SPDX-License-Identifier: Apache-2.0 */
/* The valid name that is nearest to a mistyped one. */
#include "support/unit.h"

#include <string.h>

#include "core/text/nearest.h"

static const char *const names[] = {"bind",          "size",         "net",
                                    "window_bytes",  "wants_max",    "shm_mech",
                                    "shm_ring_size", "eager_credit", "eager_max"};

static const char *name_at(size_t index)
{
    return names[index];
}

static void the_nearest_name_is_suggested(void **state)
{
    static const struct {
        const char *name, *nearest; /* NULL: none */
    } cases[] = {
        {"window", "window_bytes"}, /* not "bind", which shares more of its letters */
        {"WINDOW", "window_bytes"},
        {"w", "wants_max"},
        {"windw", "window_bytes"},
        {"widnow_bytes", "window_bytes"},
        {"window_size", "window_bytes"},
        {"bytes", NULL},
        {"bnid", "bind"},
        {"sizes", "size"},
        {"shm", "shm_mech"},
        {"eager_credits", "eager_credit"},
        {"eagre", "eager_max"},
        {"colour", NULL},
        {"", NULL}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        size_t index = name_nearest(cases[i].name, name_at, COUNT_OF(names));
        const char *nearest = index < COUNT_OF(names) ? names[index] : NULL;
        if (!nearest != !cases[i].nearest ||
            (nearest && strcmp(nearest, cases[i].nearest) != 0))
            fail_msg("%s: %s, not %s", cases[i].name, nearest ? nearest : "none",
                     cases[i].nearest ? cases[i].nearest : "none");
    }
}

static void long_names_are_cut(void **state)
{
    char huge[500];
    memset(huge, 'x', sizeof huge - 1);
    huge[sizeof huge - 1] = '\0';
    assert_int_equal(name_nearest(huge, name_at, COUNT_OF(names)), COUNT_OF(names));
    assert_int_equal(name_nearest("size", name_at, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_nearest_name_is_suggested),
        cmocka_unit_test(long_names_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
