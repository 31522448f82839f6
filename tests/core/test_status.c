/* SPDX-License-Identifier: Apache-2.0 */
/* The status list: values are unique and in their bands; each has a name and a text. */
#include "support/unit.h"

#include <string.h>

#include "tryst/tryst.h"

static const struct {
    tryst_status value;
    const char *name, *text;
} list[] = {
#define ROW(name, value, text) {value, #name, text},
    TRYST_STATUS_MAP(ROW)
#undef ROW
};

static void names_and_texts_come_from_the_list(void **state)
{
    for (size_t i = 0; i < COUNT_OF(list); i++) {
        assert_string_equal(tryst_status_name(list[i].value), list[i].name);
        assert_string_equal(tryst_status_str(list[i].value), list[i].text);
        assert_true(strlen(list[i].text) > 0);
    }
}

static void values_rise_so_none_is_used_twice(void **state)
{
    for (size_t i = 1; i < COUNT_OF(list); i++)
        assert_true(list[i].value > list[i - 1].value);
}

static void errors_lie_in_a_band_and_the_rest_does_not(void **state)
{
    for (size_t i = 0; i < COUNT_OF(list); i++) {
        bool is_error = strncmp(list[i].name, "TRYST_E_", 8) == 0;
        assert_true(is_error ? list[i].value >= 100 && list[i].value < 500
                             : list[i].value < 100);
    }
}

/* Values never change: these were released with the first version. */
static void some_values_are_pinned(void **state)
{
    assert_int_equal(TRYST_OK, 0);
    assert_int_equal(TRYST_AGAIN, 2);
    assert_int_equal(TRYST_E_INVALID, 100);
    assert_int_equal(TRYST_E_PEER, 200);
    assert_int_equal(TRYST_E_LEFT, 205);
    assert_int_equal(TRYST_E_ABORTED, 300);
    assert_int_equal(TRYST_E_FORKED, 400);
}

static void an_unknown_value_has_a_name_too(void **state)
{
    assert_string_equal(tryst_status_name(-7), "TRYST_E_UNKNOWN");
    assert_string_equal(tryst_status_str(12345), "unknown status");
}

struct visit {
    size_t count, stop_at;
};

static int visited(void *arg, tryst_status status, const char *name, const char *text)
{
    struct visit *visit = arg;
    assert_int_equal(status, list[visit->count].value);
    assert_string_equal(name, list[visit->count].name);
    assert_string_equal(text, tryst_status_str(status));
    return ++visit->count == visit->stop_at ? 42 : 0;
}

static void a_visit_sees_all_in_order_and_stops_when_told(void **state)
{
    struct visit all = {0}, some = {.stop_at = 3};
    assert_int_equal(tryst_status_visit(visited, &all), 0);
    assert_int_equal(all.count, COUNT_OF(list));
    assert_int_equal(tryst_status_visit(visited, &some), 42);
    assert_int_equal(some.count, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_texts_come_from_the_list),
        cmocka_unit_test(values_rise_so_none_is_used_twice),
        cmocka_unit_test(errors_lie_in_a_band_and_the_rest_does_not),
        cmocka_unit_test(some_values_are_pinned),
        cmocka_unit_test(an_unknown_value_has_a_name_too),
        cmocka_unit_test(a_visit_sees_all_in_order_and_stops_when_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
