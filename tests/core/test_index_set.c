/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of processors, read and written as lists and masks of systems. */
#include "support/unit.h"

#include <string.h>

#include "core/memory/alloc.h"
#include "core/text/growing_text.h"
#include "core/text/index_set.h"

static void lists(void **state)
{
    struct index_set set;
    static const char *const wrong[] = {"a", "1-", "3-1", "1 2", "-1", "1,,2"};
    assert_true(index_set_parse("0-3,8,8000-9000\n", &set));
    assert_int_equal(index_set_count(&set), 5 + INDEX_SET_MAX - 8000);
    assert_true(index_set_parse("", &set));
    assert_int_equal(index_set_count(&set), 0);
    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        assert_false(index_set_parse(wrong[i], &set));
}

static char *list_of(const struct index_set *set)
{
    struct text text = {0};
    char *list;
    index_set_write(set, &text);
    assert_int_equal(text_release(&text, NULL, &list), TRYST_OK);
    return list;
}

static void lists_are_written(void **state)
{
    static const char *const lists[] = {"", "0", "0-3,8", "7,9-8191", "0,2,4"};
    for (size_t i = 0; i < COUNT_OF(lists); i++) {
        struct index_set set;
        assert_true(index_set_parse(lists[i], &set));
        char *list = list_of(&set);
        assert_string_equal(list, lists[i]);
        mem_free(list);
    }
}

/* Masks as hwloc, the kernel and NCCL write them. */
static void masks(void **state)
{
    static const struct {
        const char *mask, *list; /* list NULL: not a mask */
    } cases[] = {
        {"", ""},
        {"0", ""},
        {"ff", "0-7"},
        {"0x1", "0"},
        {"00000001,00000000", "32"},
        {"0x80000000,0x1", "0,63"},
        {"0x1,,0x1", "0,64"},
        {"0xf,,", "64-67"},
        {"8000000000000001", "0,63"},
        {"aB", "0-1,3,5,7"},
        {"0xg", NULL},
        {"x1", NULL},
        {"1x1", NULL},
        {"0xf...f", NULL},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct index_set set;
        assert_int_equal(index_set_parse_mask(cases[i].mask, &set), cases[i].list != 0);
        if (!cases[i].list)
            continue;
        char *list = list_of(&set);
        assert_string_equal(list, cases[i].list);
        mem_free(list);
    }
}

static void masks_have_an_end(void **state)
{
    char mask[INDEX_SET_MAX / 4 + 2] = "8";
    struct index_set set;
    memset(mask + 1, '0', INDEX_SET_MAX / 4 - 1);
    assert_true(index_set_parse_mask(mask, &set));
    assert_true(set.words[INDEX_SET_MAX / 64 - 1] >> 63 == 1);
    assert_int_equal(index_set_count(&set), 1);
    strcat(mask, "0");
    assert_false(index_set_parse_mask(mask, &set));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists),
        cmocka_unit_test(lists_are_written),
        cmocka_unit_test(masks),
        cmocka_unit_test(masks_have_an_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
