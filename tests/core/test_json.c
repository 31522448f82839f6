/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON parser: texts of RFC 8259 and what they mean, every kind of mistake with its
 * place, and cost in the size of the text. test_json.py compares it with Python's. */
#include "core/source/json_reader.h"

#include "support/comma.h"
#include "support/unit.h"

#include <locale.h>
#include <string.h>

#include "core/memory/alloc.h"

static tryst_status parse(const char *text, size_t bytes, struct err *err,
                          struct json **root_p)
{
    /* a copy without a byte behind it, so that a sanitizer sees a read too far */
    char *copy = malloc(bytes ? bytes : 1);
    struct source source = {copy, bytes, "t", err};
    memcpy(copy, text, bytes);
    tryst_status status = json_parse(&source, root_p);
    free(copy);
    return status;
}

static struct json *parsed(const char *text)
{
    struct err err = ERR_INIT;
    struct json *root = NULL;
    if (parse(text, strlen(text), &err, &root) != TRYST_OK)
        fail_msg("%s: %s", text, err.text);
    return root;
}

/* ---- values ------------------------------------------------------------------------ */

static void kinds(void **state)
{
    struct json *root =
        parsed(" {\"a\" : [ null,false,\ttrue, 0 ,1.5,\"x\", {} , [ ]],\r\n"
               "  \"b\": {\"c\": [[7]]}, \"\": -0 } ");
    static const enum json_kind kinds[] = {JSON_NULL,   JSON_FALSE, JSON_TRUE,
                                           JSON_WHOLE,  JSON_REAL,  JSON_STRING,
                                           JSON_OBJECT, JSON_LIST};
    const struct json *list = json_member(root, "a");
    assert_int_equal(json_count(list), COUNT_OF(kinds));
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        assert_true(json_is(json_item(list, i), kinds[i]));
    assert_null(json_item(list, COUNT_OF(kinds)));
    const struct json *deep = json_item(json_member(json_member(root, "b"), "c"), 0);
    assert_true(json_number_of(json_item(deep, 0)) == 7);
    assert_true(json_is_number(json_member(root, "")));
    assert_null(json_member(root, "c"));
    assert_int_equal(json_count(root), 0); /* of items */
    size_t members = 0;
    json_for_each (root, member)
        assert_string_equal(member->name, members++ == 0 ? "a" : members == 2 ? "b" : "");
    assert_int_equal(members, 3);
    mem_free(root);
}

static void what_is_missing(void **state)
{
    struct json *root = parsed("\"text\"");
    int64_t number = 5;
    assert_null(json_member(NULL, "a"));
    assert_null(json_member(root, "a"));
    assert_null(json_item(NULL, 0));
    assert_null(json_item(root, 0));
    assert_null(json_next(root));
    assert_false(json_is(NULL, JSON_NULL));
    assert_false(json_is_number(root));
    assert_null(json_string_of(NULL));
    assert_true(json_number_of(root) == 0);
    assert_false(json_whole_get(NULL, 0, 9, &number));
    assert_int_equal(number, 5);
    mem_free(root);
}

static const struct {
    const char *text, *value;
} strings[] = {
    {"\"\"", ""},
    {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t"},
    {"\"\\u0041\\u00e9\\u20AC\\uFFFF\"", "A\xc3\xa9\xe2\x82\xac\xef\xbf\xbf"},
    {"\"\\uD834\\udd1e\"", "\xf0\x9d\x84\x9e"},
    {"\"\\udbff\\udfff\"", "\xf4\x8f\xbf\xbf"},
    {"\"\\ud800\\udc00\"", "\xf0\x90\x80\x80"},
    {"\"\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf\"",
     "\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf"},
};

static void strings_are_decoded(void **state)
{
    for (size_t i = 0; i < COUNT_OF(strings); i++) {
        struct json *root = parsed(strings[i].text);
        assert_string_equal(json_string_of(root), strings[i].value);
        mem_free(root);
    }
}

static const struct {
    const char *text;
    double value;
} reals[] = {
    {"0.1", 0.1},
    {"-0.0", 0},
    {"1e0", 1},
    {"1E+2", 100},
    {"2.5e-1", 0.25},
    {"1e308", 1e308},
    {"4.9e-324", 4.9e-324},
    {"1e-999", 0},
    {"0e5", 0},
    {"1.0", 1},
    {"63015384615.384613", 63015384615.384613},
    {"123456789012345678901234567890.0", 123456789012345678901234567890.0},
};

static void numbers(void **state)
{
    int64_t whole = 0;
    for (size_t i = 0; i < COUNT_OF(reals); i++) {
        struct json *root = parsed(reals[i].text);
        assert_true(json_is(root, JSON_REAL) && root->real == reals[i].value);
        assert_false(json_whole_get(root, INT64_MIN, INT64_MAX, &whole));
        mem_free(root);
    }
    struct json *root = parsed("[9223372036854775807, -9223372036854775808, -0, 10]");
    assert_true(json_whole_get(json_item(root, 0), 0, INT64_MAX, &whole));
    assert_true(whole == INT64_MAX);
    assert_true(json_whole_get(json_item(root, 1), INT64_MIN, 0, &whole));
    assert_true(whole == INT64_MIN);
    assert_true(json_whole_get(json_item(root, 2), 0, 0, &whole) && whole == 0);
    assert_false(json_whole_get(json_item(root, 3), 0, 9, &whole));
    assert_false(json_whole_get(json_item(root, 3), 11, 12, &whole));
    mem_free(root);
}

/* ---- mistakes ---------------------------------------------------------------------- */

#define NAMES20 \
    "\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,\"g\":1,\"h\":1,\"i\":1,\"j\":1,"

static const struct {
    const char *text, *error;
} wrongs[] = {
    {"", "t:1:1: invalid JSON: a value is needed here"},
    {" \n", "t:1:2: invalid JSON: a value"},
    {"\xef\xbb\xbf{}", "t:1:1: invalid JSON: a value"}, /* a byte order mark */
    {"nul", "t:1:1: invalid JSON: a value"},
    {"True", "t:1:1: invalid JSON: a value"},
    {"NaN", "t:1:1: invalid JSON: a value"},
    {"-Infinity", "t:1:2: invalid JSON: a digit"},
    {"'a'", "t:1:1: invalid JSON: a value"},
    {"{} {}", "t:1:4: invalid JSON: the text goes on"},
    {"1 // one", "t:1:3: invalid JSON: the text goes on"},
    {"truefalse", "t:1:5: invalid JSON: the text goes on"},
    {"[1,\n 2", "t:2:2: invalid JSON: \",\" or \"]\""},
    {"[1,\n 2 3]", "t:2:4: invalid JSON: \",\" or \"]\""},
    {"[1,]", "t:1:4: invalid JSON: a value"},
    {"[,1]", "t:1:2: invalid JSON: a value"},
    {"[1}", "t:1:3: invalid JSON: \",\" or \"]\""},
    {"[", "t:1:1: invalid JSON: a value"},
    {"]", "t:1:1: invalid JSON: a value"},
    {"{\"a\":1,}", "t:1:8: invalid JSON: the name"},
    {"{a:1}", "t:1:2: invalid JSON: the name"},
    {"{\"a\" 1}", "t:1:6: invalid JSON: \":\""},
    {"{\"a\":}", "t:1:6: invalid JSON: a value"},
    {"{\"a\":1]", "t:1:7: invalid JSON: \",\" or \"}\""},
    {"{\"a\":1,\n\"b\":2,\"a\":3,\"b\":4}", "t:2:11: invalid JSON: an earlier member"},
    {"{\"a\":1,\"\\u0061\":2}", "t:1:17: invalid JSON: an earlier member"},
    {"{" NAMES20 "\"k\":{\"l\":1},\"a\":2}", "t:1:78: invalid JSON: an earlier member"},
    {"01", "t:1:2: invalid JSON: the text goes on"},
    {"[-01]", "t:1:4: invalid JSON: \",\" or \"]\""},
    {"-", "t:1:1: invalid JSON: a digit"},
    {"+1", "t:1:1: invalid JSON: a value"},
    {".5", "t:1:1: invalid JSON: a value"},
    {"1.", "t:1:2: invalid JSON: a digit"},
    {"[1.e5]", "t:1:4: invalid JSON: a digit"},
    {"[1e]", "t:1:4: invalid JSON: a digit"},
    {"[1e+]", "t:1:5: invalid JSON: a digit"},
    {"0x10", "t:1:2: invalid JSON: the text goes on"},
    {"[1e999]", "t:1:2: invalid JSON: this number"},
    {"[ -1e999]", "t:1:3: invalid JSON: this number"},
    {"9223372036854775808", "t:1:1: invalid JSON: this integer"},
    {"-9223372036854775809", "t:1:1: invalid JSON: this integer"},
    {"\"a", "t:1:2: invalid JSON: a string has no"},
    {"\"a\\\"", "t:1:4: invalid JSON: a string has no"},
    {"\"a\nb\"", "t:1:3: invalid JSON: a control character"},
    {"\"\x1f\"", "t:1:2: invalid JSON: a control character"},
    {"\"\\x41\"", "t:1:2: invalid JSON: this escape"},
    {"\"\\u12G4\"", "t:1:2: invalid JSON: this escape"},
    {"\"\\u 123\"", "t:1:2: invalid JSON: this escape"},
    {"\"\\u12", "t:1:2: invalid JSON: this escape"},
    {"\"\\", "t:1:2: invalid JSON: this escape"},
    {"\"a\\u0000\"", "t:1:3: invalid JSON: a string must not contain NUL"},
    {"{\"\\u0000\":1}", "t:1:3: invalid JSON: a string must not contain NUL"},
    {"\"\\ud800\"", "t:1:2: invalid JSON: half of a surrogate pair"},
    {"\"\\ud800\\u0041\"", "t:1:2: invalid JSON: half"},
    {"\"\\ud800\\ud800\"", "t:1:2: invalid JSON: half"},
    {"\"\xc3\xa9\\udc00\"", "t:1:3: invalid JSON: half"},
    {"\"\xc3\xa9\xff\"", "t:1:3: invalid JSON: this is not UTF-8"},
    {"\"\xc0\x80\"", "t:1:2: invalid JSON: this is not UTF-8"},
    {"\"\xe0\x80\x80\"", "t:1:2: invalid JSON: this is not UTF-8"},
    {"\"\xed\xa0\x80\"", "t:1:2: invalid JSON: this is not UTF-8"},
    {"\"\xf4\x90\x80\x80\"", "t:1:2: invalid JSON: this is not UTF-8"},
    {"\"\x80\"", "t:1:2: invalid JSON: this is not UTF-8"},
    {"\"\xe2\x82", "t:1:2: invalid JSON: this is not UTF-8"},
};

static void mistake_check(const char *text, size_t bytes, const char *error)
{
    struct err err = ERR_INIT;
    struct json *root = NULL;
    uint64_t before = alloc_live_count();
    if (parse(text, bytes, &err, &root) != TRYST_E_INVALID)
        fail_msg("%s was accepted", text);
    if (strncmp(err.text, error, strlen(error)) != 0)
        fail_msg("%s\n  text: %s\n  not:  %s", text, err.text, error);
    assert_int_equal(alloc_live_count(), before);
}

static void mistakes_are_placed(void **state)
{
    for (size_t i = 0; i < COUNT_OF(wrongs); i++)
        mistake_check(wrongs[i].text, strlen(wrongs[i].text), wrongs[i].error);
    mistake_check("[1,\0 2]", 7, "t:1:4: invalid JSON: a value");
    mistake_check("\"a\0b\"", 5, "t:1:3: invalid JSON: a control character");
    mistake_check("1\0", 2, "t:1:2: invalid JSON: the text goes on");
}

/* Every prefix of a valid text is refused, and every byte of it may be any other. */
static void pieces(void **state)
{
    static const char text[] = "{\"a\\u00e9\": [1, -2.5e+3, \"\\ud834\\udd1e \xc3\xa9\", "
                               "{\"b\": null, \"c\": [true, false]}], \"d\": {}}";
    char changed[sizeof text];
    for (size_t bytes = 0; bytes < sizeof text - 1; bytes++)
        mistake_check(text, bytes, "t:1:");
    for (size_t at = 0; at < sizeof text - 1; at++)
        for (int byte = 0; byte < 256; byte++) {
            struct err err = ERR_INIT;
            struct json *root;
            memcpy(changed, text, sizeof text);
            changed[at] = (char)byte;
            tryst_status status = parse(changed, sizeof text - 1, &err, &root);
            if (status == TRYST_OK)
                mem_free(root);
            else
                assert_true(status == TRYST_E_INVALID && err.text[0]);
        }
}

/* ---- size -------------------------------------------------------------------------- */

static void depth(void **state)
{
    char text[2 * JSON_DEPTH_MAX + 3] = "";
    memset(text, '[', JSON_DEPTH_MAX);
    memset(text + JSON_DEPTH_MAX, ']', JSON_DEPTH_MAX);
    mem_free(parsed(text));
    memset(text, '[', JSON_DEPTH_MAX + 1);
    memset(text + JSON_DEPTH_MAX + 1, ']', JSON_DEPTH_MAX + 1);
    mistake_check(text, sizeof text - 1, "t:1:101: invalid JSON: lists and objects");
}

enum { MANY = 200000 };

/* Names are compared in n log n, a list is walked in n, and memory is a multiple of the
 * text: the test would take hours or gigabytes otherwise. */
static void many(void **state)
{
    struct err err = ERR_INIT;
    struct json *root;
    char *text = malloc(32 * MANY);
    size_t bytes = 0, count = 0;
    text[bytes++] = '{';
    for (int i = 0; i < MANY; i++)
        bytes += (size_t)sprintf(text + bytes, "\"name%d\":%d,", i, i);
    bytes += (size_t)sprintf(text + bytes, "\"list\":[0");
    for (int i = 1; i < MANY; i++)
        bytes += (size_t)sprintf(text + bytes, ",%d", i);
    bytes += (size_t)sprintf(text + bytes, "]}");
    uint64_t before = alloc_live_bytes();
    assert_int_equal(parse(text, bytes, &err, &root), TRYST_OK);
    assert_true(alloc_live_bytes() - before < 17 * bytes);
    json_for_each (json_member(root, "list"), item)
        assert_int_equal(item->whole, count++);
    assert_int_equal(count, MANY);
    assert_int_equal(json_member(root, "name199999")->whole, 199999);
    mem_free(root);
    free(text);
}

static tryst_status parse_and_free(void)
{
    struct json *root;
    tryst_status status = parse("{\"a\":[1]}", 9, NULL, &root);
    if (status == TRYST_OK)
        mem_free(root);
    return status;
}

static void memory_may_fail(void **state)
{
    WALK_ALLOCATIONS(parse_and_free());
}

static void a_comma_is_no_point(void **state)
{
    bool comma = comma_set();
    struct json *root = parsed("[0.5]");
    setlocale(LC_NUMERIC, "C");
    assert_true(json_number_of(json_item(root, 0)) == 0.5);
    mem_free(root);
    if (!comma)
        skip();
}

/* ---- beside Python ----------------------------------------------------------------- */

static void string_print(const char *string)
{
    putchar('"');
    for (; *string; string++)
        printf("%02x", (unsigned char)*string);
}

static void value_print(const struct json *value)
{
    unsigned long long bits;
    switch (value->kind) {
    case JSON_NULL: putchar('n'); break;
    case JSON_FALSE: putchar('f'); break;
    case JSON_TRUE: putchar('t'); break;
    case JSON_WHOLE: printf("i%lld", (long long)value->whole); break;
    case JSON_REAL:
        memcpy(&bits, &value->real, sizeof bits);
        printf("r%016llx", bits);
        break;
    case JSON_STRING: string_print(value->string); break;
    default: putchar(value->kind == JSON_LIST ? '[' : '{');
    }
    if (value->kind < JSON_LIST)
        return;
    json_for_each (value, part) {
        if (part->name)
            string_print(part->name);
        putchar(' ');
        value_print(part);
    }
    putchar(']');
}

/* Answer each text of the standard input, which its length in a line precedes, by a line:
 * its values, or "refused". Strings are in hexadecimal digits, and so are reals, as the
 * bits of a double. For test_json.py. */
static int texts_answer(void)
{
    size_t bytes;
    while (scanf("%zu", &bytes) == 1 && getchar() == '\n') {
        char *text = malloc(bytes + 1);
        struct json *root;
        if (!text || fread(text, 1, bytes, stdin) != bytes)
            return 1;
        struct source source = {text, bytes, "text", NULL};
        if (json_parse(&source, &root) == TRYST_OK) {
            value_print(root);
            mem_free(root);
        } else {
            printf("refused");
        }
        putchar('\n');
        free(text);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "answer") == 0)
        return texts_answer();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds),
        cmocka_unit_test(what_is_missing),
        cmocka_unit_test(strings_are_decoded),
        cmocka_unit_test(numbers),
        cmocka_unit_test(mistakes_are_placed),
        cmocka_unit_test(pieces),
        cmocka_unit_test(depth),
        cmocka_unit_test(many),
        cmocka_unit_test(memory_may_fail),
        cmocka_unit_test(a_comma_is_no_point),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
