/* SPDX-License-Identifier: Apache-2.0 */
/* Text to value and back, as tables. */
#include "support/unit.h"

#include <string.h>

#include "core/config/config.h"
#include "core/config/config_value.h"
#include "core/os/clock.h"

#define REFUSED UINT64_C(0xdeadbeefdeadbeef)
#define K       UINT64_C(1024)

struct parse_case {
    const char *text;
    uint64_t value; /* REFUSED: not a valid text */
};

static void check(struct config_row row, const struct parse_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t value = REFUSED;
        bool allowed = value_parse(&row, cases[i].text, &value);
        if (allowed != (cases[i].value != REFUSED) || value != cases[i].value)
            fail_msg("%s \"%s\" [%s] gave %s, %llu", value_type_name(row.type),
                     cases[i].text, row.allowed, allowed ? "allowed" : "refused",
                     (unsigned long long)value);
    }
}

static void bytes(void **state)
{
    static const struct parse_case cases[] = {
        {"0", 0},
        {"1", 1},
        {"4096", 4096},
        {"64K", 64 * K},
        {"64k", 64 * K},
        {"64KiB", 64 * K},
        {"4M", 4 * K * K},
        {"4m", 4 * K * K},
        {"4MiB", 4 * K * K},
        {"1G", K * K * K},
        {"1GiB", K * K * K},
        {"2T", 2 * K * K * K * K},
        {"007", 7},
        {"0K", 0},
        {"18446744073709551615", UINT64_MAX},
        {"", REFUSED},
        {"K", REFUSED},
        {"-1", REFUSED},
        {"+1", REFUSED},
        {" 1", REFUSED},
        {"1 ", REFUSED},
        {"1 K", REFUSED},
        {"1KB", REFUSED},
        {"1B", REFUSED},
        {"1kib", REFUSED},
        {"1.5M", REFUSED},
        {"0x10", REFUSED},
        {"1MK", REFUSED},
        {"18446744073709551616", REFUSED},
        {"99999999999T", REFUSED},
        {"1P", REFUSED},
    };
    check((struct config_row){.type = CONFIG_TYPE_BYTES, .allowed = ""}, cases,
          COUNT_OF(cases));
}

static void times(void **state)
{
    static const struct parse_case cases[] = {
        {"0", 0},
        {"10ns", 10},
        {"20us", 20 * NS_PER_US},
        {"500ms", 500 * NS_PER_MS},
        {"60s", 60 * NS_PER_S},
        {"5m", 300 * NS_PER_S},
        {"1h", 3600 * NS_PER_S},
        {"0s", 0},
        {"60", REFUSED}, /* no unit */
        {"60S", REFUSED},
        {"5M", REFUSED},
        {"s", REFUSED},
        {"", REFUSED},
        {"-5s", REFUSED},
        {"1.5s", REFUSED},
        {"1s500ms", REFUSED},
        {"1000000000h", REFUSED},
    };
    check((struct config_row){.type = CONFIG_TYPE_TIME, .allowed = ""}, cases,
          COUNT_OF(cases));
}

static void integers(void **state)
{
    static const struct parse_case cases[] = {
        {"0", 0},
        {"-1", (uint64_t)-1},
        {"9223372036854775807", INT64_MAX},
        {"-9223372036854775807", (uint64_t)-INT64_MAX},
        {"9223372036854775808", REFUSED},
        {"--1", REFUSED},
        {"-", REFUSED},
        {"", REFUSED},
        {"1K", REFUSED},
        {"1.0", REFUSED},
    };
    check((struct config_row){.type = CONFIG_TYPE_INT, .allowed = ""}, cases,
          COUNT_OF(cases));
}

static void booleans(void **state)
{
    static const struct parse_case cases[] = {
        {"0", 0},         {"n", 0},          {"no", 0},         {"off", 0},
        {"false", 0},     {"1", 1},          {"y", 1},          {"yes", 1},
        {"on", 1},        {"true", 1},       {"", REFUSED},     {"2", REFUSED},
        {"ye", REFUSED},  {"yes ", REFUSED}, {"TRUE", REFUSED}, {"|", REFUSED},
        {"0|n", REFUSED},
    };
    check((struct config_row){.type = CONFIG_TYPE_BOOL, .allowed = ""}, cases,
          COUNT_OF(cases));
}

static void words(void **state)
{
    static const struct parse_case cases[] = {
        {"auto", 0},      {"self", 1},           {"shm", 2},      {"ucx", 3},
        {"ofi", 4},       {"", REFUSED},         {"sh", REFUSED}, {"shmm", REFUSED},
        {"SHM", REFUSED}, {"self|shm", REFUSED}, {"0", REFUSED},
    };
    check(
        (struct config_row){.type = CONFIG_TYPE_ENUM, .allowed = "auto|self|shm|ucx|ofi"},
        cases, COUNT_OF(cases));
}

static void limits_are_inclusive_and_in_the_values_own_spelling(void **state)
{
    static const struct parse_case sizes[] = {
        {"4K", 4 * K}, {"4095", REFUSED}, {"1M", K * K}, {"1048577", REFUSED}};
    static const struct parse_case spans[] = {{"100ms", 100 * NS_PER_MS},
                                              {"99ms", REFUSED},
                                              {"1h", 3600 * NS_PER_S},
                                              {"61m", REFUSED}};
    static const struct parse_case numbers[] = {
        {"-1", (uint64_t)-1}, {"-2", REFUSED}, {"0", 0}, {"5", 5}, {"6", REFUSED}};
    check((struct config_row){.type = CONFIG_TYPE_BYTES, .allowed = "4K..1M"}, sizes,
          COUNT_OF(sizes));
    check((struct config_row){.type = CONFIG_TYPE_TIME, .allowed = "100ms..1h"}, spans,
          COUNT_OF(spans));
    check((struct config_row){.type = CONFIG_TYPE_INT, .allowed = "-1..5"}, numbers,
          COUNT_OF(numbers));
}

static void formatted_text_parses_back(void **state)
{
    static const struct {
        enum config_type type;
        uint64_t value;
        const char *text;
    } cases[] = {
        {CONFIG_TYPE_BYTES, 0, "0"},
        {CONFIG_TYPE_BYTES, 1000, "1000"},
        {CONFIG_TYPE_BYTES, 1024, "1K"},
        {CONFIG_TYPE_BYTES, 1025, "1025"},
        {CONFIG_TYPE_BYTES, 3 * K * K, "3M"},
        {CONFIG_TYPE_BYTES, UINT64_MAX, "18446744073709551615"},
        {CONFIG_TYPE_TIME, 0, "0ns"},
        {CONFIG_TYPE_TIME, 1, "1ns"},
        {CONFIG_TYPE_TIME, 1500 * NS_PER_US, "1500us"},
        {CONFIG_TYPE_TIME, 15 * NS_PER_S, "15s"},
        {CONFIG_TYPE_ENUM, 1, "b"},
        {CONFIG_TYPE_BOOL, 1, "1"},
        {CONFIG_TYPE_INT, (uint64_t)-1, "-1"},
        {CONFIG_TYPE_INT, 42, "42"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct config_row row = {.type = cases[i].type,
                                 .allowed =
                                     cases[i].type == CONFIG_TYPE_ENUM ? "a|b|c" : ""};
        char text[32];
        uint64_t back;
        value_format(&row, cases[i].value, text, sizeof text);
        assert_string_equal(text, cases[i].text);
        assert_true(value_parse(&row, text, &back));
        assert_true(back == cases[i].value);
    }
    char text[32];
    value_format(&(struct config_row){.type = CONFIG_TYPE_ENUM, .allowed = "a|b"}, 9,
                 text, sizeof text);
    assert_string_equal(text, "?"); /* a value from another version */
}

static void a_description_says_what_is_allowed(void **state)
{
    char text[128];
    value_describe(&(struct config_row){.type = CONFIG_TYPE_BYTES, .allowed = "4K..1T"},
                   text, sizeof text);
    assert_string_equal(text,
                        "a number of bytes such as 4096, 64K or 4MiB, from 4K to 1T");
    value_describe(&(struct config_row){.type = CONFIG_TYPE_ENUM, .allowed = "a|b"}, text,
                   sizeof text);
    assert_string_equal(text, "one of a|b");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes),
        cmocka_unit_test(times),
        cmocka_unit_test(integers),
        cmocka_unit_test(booleans),
        cmocka_unit_test(words),
        cmocka_unit_test(limits_are_inclusive_and_in_the_values_own_spelling),
        cmocka_unit_test(formatted_text_parses_back),
        cmocka_unit_test(a_description_says_what_is_allowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
