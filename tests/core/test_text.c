/* SPDX-License-Identifier: Apache-2.0 */
/* Text from outside is printed without control characters, as valid UTF-8, and never cut
 * in the middle of a character. */
#include "core/text/text.h"

#include "core/os/random.h"
#include "support/unit.h"

#include <string.h>

static const struct row {
    const char *data;
    const char *text;
    size_t bytes; /* 0: up to the terminator */
} rows[] = {
    {"", "", 0},
    {"rank 3 died: Größe \xe2\x82\xac 5, 日本 \xf0\x9f\x8e\x89 ~", NULL, 0},
    {"a\nb\r\tc", "a\\x0ab\\x0d\\x09c", 0},
    {"\x1b]0;title\x07\x1b[2J", "\\x1b]0;title\\x07\\x1b[2J", 0},
    {"\x7f\x01\x1f ", "\\x7f\\x01\\x1f ", 0},
    {"a\0b", "a\\x00b", 3},
    {"\xc2\x9b"
     "31m\xc2\x80\xc2\x9f",
     "\\xc2\\x9b31m\\xc2\\x80\\xc2\\x9f", 0}, /* C1 controls */
    /* the first character after the C1 controls, and the last one of two bytes */
    {"\xc2\xa0\xdf\xbf", NULL, 0},
    {"\x80 \xbf", "\\x80 \\xbf", 0}, /* continuation bytes without a start */
    {"\xc3( \xe2\x82( \xf0\x9f\x8e(", "\\xc3( \\xe2\\x82( \\xf0\\x9f\\x8e(", 0},
    {"\xc3", "\\xc3", 0}, /* cut off */
    {"\xf0\x9f\x8e", "\\xf0\\x9f\\x8e", 0},
    {"\xc0\xaf \xe0\x9f\xbf \xf0\x8f\xbf\xbf", /* overlong */
     "\\xc0\\xaf \\xe0\\x9f\\xbf \\xf0\\x8f\\xbf\\xbf", 0},
    {"\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf\xf0\x90\x80\x80", NULL, 0},
    {"\xed\xa0\x80\xed\xbf\xbf", "\\xed\\xa0\\x80\\xed\\xbf\\xbf", 0}, /* surrogates */
    {"\xf4\x8f\xbf\xbf", NULL, 0},
    {"\xf4\x90\x80\x80 \xf8\x88\x80\x80\x80 \xfe\xff",
     "\\xf4\\x90\\x80\\x80 \\xf8\\x88\\x80\\x80\\x80 \\xfe\\xff", 0},
    {"\\ \\x \\x1 \\x1b \\n \"'", NULL, 0}, /* backslashes and quotes are not escaped */
};

static size_t bytes_of(const struct row *row)
{
    return row->bytes ? row->bytes : strlen(row->data);
}

static void every_character_is_utf8(void **state)
{
    static const struct {
        const char *text;
        size_t bytes;
    } chars[] = {
        {"a", 1},        {"\n", 1},           {"\x7f", 1},
        {"\xc2\x80", 2}, {"\xc3\xa9", 2},     {"\xe2\x82\xac", 3},
        {"\xc0\x80", 0}, {"\xe0\x80\x80", 0}, {"\xed\xa0\x80", 0},
        {"\xff", 0},     {"\xc3", 0},         {"\xf0\x9f\x8e\x89", 4},
        {"\xc3(", 0},    {"\x80", 0},         {"\xf4\x90\x80\x80", 0},
    };
    for (size_t i = 0; i < COUNT_OF(chars); i++) {
        assert_int_equal(text_utf8_bytes(chars[i].text, strlen(chars[i].text)),
                         chars[i].bytes);
        assert_int_equal(text_utf8_bytes(chars[i].text, 0), 0);
    }
}

static void what_does_not_print_is_escaped(void **state)
{
    char none[2] = "x";
    (void)state;
    assert_int_equal(text_escape(NULL, 0, none, sizeof none), 0);
    assert_string_equal(none, "");
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char text[256], again[256];
        const char *wanted = rows[i].text ? rows[i].text : rows[i].data;
        size_t length = text_escape(rows[i].data, bytes_of(&rows[i]), text, sizeof text);
        assert_string_equal(text, wanted);
        assert_int_equal(length, strlen(wanted));
        text_escape(text, length, again, sizeof again);
        assert_string_equal(again, wanted);
    }
}

/* True if `text` is a prefix of `whole` that consists of whole characters and whole
 * \xHH. */
static bool is_prefix(const char *text, const char *whole)
{
    size_t length = strlen(text), at = 0;
    if (strncmp(text, whole, length) != 0)
        return false;
    while (at < length) {
        size_t bytes = text_char_bytes(whole + at, strlen(whole + at));
        at += strncmp(whole + at, "\\x", 2) == 0 && whole[at + 2] != ' ' &&
                      whole[at + 3] != ' '
                  ? 4
                  : bytes;
        assert_true(bytes > 0);
    }
    return at == length;
}

static void nothing_is_cut_in_two(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const char *wanted = rows[i].text ? rows[i].text : rows[i].data;
        for (size_t capacity = 1; capacity <= strlen(wanted) + 2; capacity++) {
            char text[256];
            memset(text, '#', sizeof text);
            size_t length = text_escape(rows[i].data, bytes_of(&rows[i]), text, capacity);
            assert_true(length == strlen(text) && length < capacity);
            assert_true(text[capacity] == '#');
            assert_true(is_prefix(text, wanted));
            /* only what does not fit is left out */
            assert_true(capacity <= strlen(wanted) ? length + 4 >= capacity
                                                   : length == strlen(wanted));
        }
    }
}

static void any_bytes_become_text(void **state)
{
    struct random random;
    (void)state;
    random_seed(&random, unit_seed());
    for (int i = 0; i < 20000; i++) {
        unsigned char data[24];
        char text[4 * sizeof data + 1], again[sizeof text];
        for (size_t k = 0; k < sizeof data; k++)
            data[k] =
                (unsigned char)(random_u64(&random) >> (k % 3 ? 8 : 9) | 0x80 * (k & 1));
        size_t length = text_escape(data, sizeof data, text, sizeof text);
        for (size_t at = 0, n; at < length; at += n) {
            n = text_char_bytes(text + at, length - at);
            assert_true(n > 0);
        }
        assert_int_equal(text_escape(text, length, again, sizeof again), length);
        assert_string_equal(again, text);
    }
}

/* Text that does not fit is cut at a whole character; text before it stays. */
static void a_text_grows_to_its_end(void **state)
{
    static const struct {
        const char *first, *more, *whole;
        size_t capacity;
    } table[] = {
        {"", "abc", "abc", 8},
        {"abc", "def", "abcdef", 7},
        {"abc", "def", "abcde", 6},
        {"abc", "", "abc", 4},
        {"abc", "def", "abc", 4},
        {"", "abc", "", 1},
        {"a",
         "\xc3\xa4"
         "b",
         "a\xc3\xa4", 4},
        {"a",
         "\xc3\xa4"
         "b",
         "a", 3},
        {"a", "\xe2\x82\xac", "a", 4},
        {"a", "\xe2\x82\xac", "a\xe2\x82\xac", 5},
        {"", "\xf0\x9f\x98\x80", "", 4},
    };
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        char text[16];
        snprintf(text, sizeof text, "%s", table[i].first);
        size_t length = text_append(text, table[i].capacity, "%s", table[i].more);
        if (strcmp(text, table[i].whole) != 0 || length != strlen(text))
            fail_msg("row %zu: \"%s\", %zu", i, text, length);
    }
}

/* JSON text is made one character at a time; characters that JSON does not allow become
 * escapes. */
static void json_is_made_by_pieces(void **state)
{
    static const struct {
        const char *text, *json;
    } table[] = {
        {"", ""},
        {"plain", "plain"},
        {"\"\\\n\x7f", "\\\"\\\\\\u000a\x7f"},
        {"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"},
        {"\xff"
         "a\xc3",
         "\\ufffd"
         "a\\ufffd"},
        {"\xe2\x82", "\\ufffd\\ufffd"},
    };
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        char json[64] = "", piece[TEXT_PIECE_BYTES];
        const char *at = table[i].text;
        size_t bytes, used = 0;
        while ((bytes = text_json_piece(&at, piece)) > 0) {
            memcpy(json + used, piece, bytes);
            used += bytes;
        }
        assert_string_equal(json, table[i].json);
        assert_int_equal(*at, '\0');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_character_is_utf8),
        cmocka_unit_test(what_does_not_print_is_escaped),
        cmocka_unit_test(nothing_is_cut_in_two),
        cmocka_unit_test(a_text_grows_to_its_end),
        cmocka_unit_test(json_is_made_by_pieces),
        cmocka_unit_test(any_bytes_become_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
