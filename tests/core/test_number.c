/* SPDX-License-Identifier: Apache-2.0 */
/* Whole numbers: their syntax, their limits, and that a refusal changes nothing. */
#include "support/unit.h"

#include <string.h>

#include "core/text/number.h"

#define REFUSED UINT64_C(0xdeadbeefdeadbeef)

static const struct {
    const char *text, *rest;
    uint64_t number; /* REFUSED: not a number */
} rows[] = {
    {"0", "", 0},
    {"007", "", 7},
    {"4096", "", 4096},
    {"64K", "K", 64},
    {"1.5", ".5", 1},
    {"12 34", " 34", 12},
    {"18446744073709551615", "", UINT64_MAX},
    {"18446744073709551616", "18446744073709551616", REFUSED},
    {"99999999999999999999999", "99999999999999999999999", REFUSED},
    {"", "", REFUSED},
    {"-1", "-1", REFUSED},
    {"+1", "+1", REFUSED},
    {" 1", " 1", REFUSED},
    {"x1", "x1", REFUSED},
    {"\xd9\xa1", "\xd9\xa1", REFUSED}, /* a digit of another script */
};

static void digits_and_nothing_else(void **state)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const char *rest = rows[i].text;
        uint64_t number = REFUSED;
        bool read = number_read(&rest, &number);
        if (read != (rows[i].number != REFUSED) || number != rows[i].number ||
            strcmp(rest, rows[i].rest) != 0)
            fail_msg("\"%s\": %s, %llu, then \"%s\"", rows[i].text,
                     read ? "read" : "refused", (unsigned long long)number, rest);
    }
}

/* Text behind the number, or a number above the limit, refuses the whole text. */
static void the_whole_text_within_a_limit(void **state)
{
    static const struct {
        const char *text;
        uint64_t most, number;
    } wholes[] = {
        {"0", 0, 0},
        {"1", 0, REFUSED},
        {"65535", 65535, 65535},
        {"65536", 65535, REFUSED},
        {"12 ", 100, REFUSED},
        {"64K", 100, REFUSED},
        {"", 100, REFUSED},
        {"-1", 100, REFUSED},
        {"18446744073709551615", UINT64_MAX, UINT64_MAX},
    };
    for (size_t i = 0; i < COUNT_OF(wholes); i++) {
        uint64_t number = REFUSED;
        bool good = number_parse(wholes[i].text, wholes[i].most, &number);
        if (good != (wholes[i].number != REFUSED) || number != wholes[i].number)
            fail_msg("\"%s\": %llu", wholes[i].text, (unsigned long long)number);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(digits_and_nothing_else),
        cmocka_unit_test(the_whole_text_within_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
