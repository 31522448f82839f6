/* SPDX-License-Identifier: Apache-2.0 */
/* See json.h. A recursive descent: each scan begins at the first character of its part
 * and ends behind the last one, or stops at the character that is wrong. */
#include "json.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/text/text.h"

struct parser {
    const struct source *source;
    const char *at, *end;
    struct json *value;          /* the next one */
    char *string;                /* room for the next one */
    const struct json **members; /* scratch: those of one object */
    size_t members_room;
};

static tryst_status value_scan(struct parser *p, const char *name, unsigned depth);

/* ---- text -------------------------------------------------------------------------- */

/* Reject the text at p->at; an unexpected end is reported at the last character. */
static tryst_status wrong(const struct parser *p, const char *reason)
{
    const struct source *source = p->source;
    size_t offset = (size_t)(p->at - source->text);
    if (p->at == p->end && offset > 0)
        do
            offset--;
        while (offset > 0 && (source->text[offset] & 0xc0) == 0x80);
    return source_refuse(source, text_place_at(source->text, source->bytes, offset),
                         "invalid JSON: %s", reason);
}

/* Return the character at p->at, 0 at the end. No JSON text contains a NUL. */
static char peek(const struct parser *p)
{
    return p->at < p->end ? *p->at : '\0';
}

static void blanks_skip(struct parser *p)
{
    while (peek(p) == ' ' || peek(p) == '\t' || peek(p) == '\n' || peek(p) == '\r')
        p->at++;
}

/* Skip blanks and `c`. False if another character is there. */
static bool skip(struct parser *p, char c)
{
    blanks_skip(p);
    bool found = peek(p) == c;
    p->at += found;
    return found;
}

/* ---- strings ----------------------------------------------------------------------- */

/* Read "\uXXXX" at p->at, which is moved if it is there. */
static bool unit_scan(struct parser *p, uint32_t *unit_p)
{
    char digits[5] = "";
    if (p->end - p->at < 6 || p->at[0] != '\\' || p->at[1] != 'u')
        return false;
    memcpy(digits, p->at + 2, 4);
    if (strspn(digits, "0123456789abcdefABCDEF") != 4)
        return false;
    *unit_p = (uint32_t)strtoul(digits, NULL, 16);
    p->at += 6;
    return true;
}

static char *utf8_write(char *out, uint32_t code)
{
    static const unsigned char first[] = {0, 0xc0, 0xe0, 0xf0};
    int more = (code >= 0x80) + (code >= 0x800) + (code >= 0x10000);
    *out++ = (char)(first[more] | code >> 6 * more);
    while (more-- > 0)
        *out++ = (char)(0x80 | (code >> 6 * more & 0x3f));
    return out;
}

static tryst_status escape_scan(struct parser *p, char **out_p)
{
    static const char escapes[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    const char *begin = p->at;
    char letter = p->end - begin > 1 ? begin[1] : '\0';
    const char *known = letter ? strchr(escapes, letter) : NULL;
    uint32_t code = 0, low = 0;
    if (known) {
        *(*out_p)++ = meanings[known - escapes];
        p->at += 2;
        return TRYST_OK;
    }
    if (!unit_scan(p, &code))
        return wrong(p, "this escape does not exist");
    bool high = code >= 0xd800 && code < 0xdc00;
    if (high && unit_scan(p, &low) && low >= 0xdc00 && low < 0xe000)
        code = 0x10000 + ((code - 0xd800) << 10 | (low - 0xdc00));
    if (code && (code < 0xd800 || code >= 0xe000)) {
        *out_p = utf8_write(*out_p, code);
        return TRYST_OK;
    }
    p->at = begin;
    return wrong(p, code ? "half of a surrogate pair" : "a string must not contain NUL");
}

/* A string and its NUL need no more bytes than in the text, with its quotes. */
static tryst_status string_scan(struct parser *p, const char **string_p)
{
    char *out = p->string;
    for (p->at++; p->at < p->end && *p->at != '"';) {
        size_t length = text_utf8_bytes(p->at, (size_t)(p->end - p->at));
        if (*p->at == '\\') {
            tryst_status status = escape_scan(p, &out);
            if (status != TRYST_OK)
                return status;
            continue;
        }
        if (!length)
            return wrong(p, "this is not UTF-8");
        if ((unsigned char)*p->at < 0x20)
            return wrong(p, "a control character in a string must be escaped");
        memcpy(out, p->at, length);
        out += length;
        p->at += length;
    }
    if (p->at == p->end)
        return wrong(p, "a string has no closing quote");
    p->at++;
    *out++ = '\0';
    *string_p = p->string;
    p->string = out;
    return TRYST_OK;
}

/* ---- numbers and words ------------------------------------------------------------- */

/* Return the number of digits that were skipped. */
static size_t digits_skip(struct parser *p)
{
    const char *begin = p->at;
    while (peek(p) >= '0' && peek(p) <= '9')
        p->at++;
    return (size_t)(p->at - begin);
}

/* Skip a number; *whole_p: it has neither a fraction nor an exponent. */
static bool number_skip(struct parser *p, bool *whole_p)
{
    bool valid = true;
    p->at += peek(p) == '-';
    if (peek(p) == '0')
        p->at++; /* no digit follows it */
    else if (digits_skip(p) == 0)
        return false;
    const char *end = p->at;
    if (peek(p) == '.') {
        p->at++;
        valid = digits_skip(p) > 0;
    }
    if (valid && (peek(p) == 'e' || peek(p) == 'E')) {
        p->at++;
        p->at += peek(p) == '+' || peek(p) == '-';
        valid = digits_skip(p) > 0;
    }
    *whole_p = p->at == end;
    return valid;
}

static tryst_status number_scan(struct parser *p, struct json *value)
{
    const char *begin = p->at;
    bool whole;
    if (!number_skip(p, &whole))
        return wrong(p, p->at == begin ? "a value is needed here"
                                       : "a digit is needed here");
    size_t bytes = (size_t)(p->at - begin);
    memcpy(p->string, begin, bytes); /* strtod needs the NUL */
    p->string[bytes] = '\0';
    errno = 0;
    value->kind = whole ? JSON_WHOLE : JSON_REAL;
    if (whole)
        value->whole = strtoll(p->string, NULL, 10);
    else
        value->real = strtod(p->string, NULL);
    if (whole ? errno == 0 : isfinite(value->real))
        return TRYST_OK;
    p->at = begin;
    return wrong(p, whole ? "this integer needs more than 64 bits"
                          : "this number exceeds the range of a double");
}

static tryst_status word_scan(struct parser *p, const char *word)
{
    size_t bytes = strlen(word);
    if ((size_t)(p->end - p->at) < bytes || memcmp(p->at, word, bytes) != 0)
        return wrong(p, "a value is needed here");
    p->at += bytes;
    return TRYST_OK;
}

/* ---- lists and objects ------------------------------------------------------------- */

static tryst_status name_scan(struct parser *p, const char **name_p)
{
    blanks_skip(p);
    if (peek(p) != '"')
        return wrong(p, "the name of a member is needed here, in quotes");
    tryst_status status = string_scan(p, name_p);
    if (status == TRYST_OK && !skip(p, ':'))
        return wrong(p, "\":\" is needed here");
    return status;
}

static int by_name(const void *a, const void *b)
{
    const struct json *left = *(const struct json *const *)a;
    const struct json *right = *(const struct json *const *)b;
    int order = strcmp(left->name, right->name);
    return order ? order
                 : (left->offset > right->offset) - (left->offset < right->offset);
}

/* Reject the first member that has the name of an earlier one. */
static tryst_status names_check(struct parser *p, const struct json *object)
{
    const struct json *twice = NULL;
    size_t count = 0;
    if (!mem_reserve(&p->members, &p->members_room, object->count, sizeof *p->members))
        return source_no_memory(p->source);
    json_for_each (object, member)
        p->members[count++] = member;
    qsort(p->members, count, sizeof *p->members, by_name);
    for (size_t i = 1; i < count; i++)
        if (strcmp(p->members[i - 1]->name, p->members[i]->name) == 0 &&
            (!twice || p->members[i]->offset < twice->offset))
            twice = p->members[i];
    if (!twice)
        return TRYST_OK;
    p->at = p->source->text + twice->offset;
    return wrong(p, "an earlier member of this object has the same name");
}

/* Scan the items of a list, or the members of an object. */
static tryst_status parts_scan(struct parser *p, struct json *whole, unsigned depth)
{
    bool object = whole->kind == JSON_OBJECT;
    struct json *last = NULL;
    if (depth == JSON_DEPTH_MAX)
        return wrong(p, "lists and objects are nested too deeply");
    p->at++;
    if (skip(p, object ? '}' : ']'))
        return TRYST_OK;
    do {
        struct json *part = p->value;
        const char *name = NULL;
        tryst_status status = object ? name_scan(p, &name) : TRYST_OK;
        if (status == TRYST_OK)
            status = value_scan(p, name, depth + 1);
        if (status != TRYST_OK)
            return status;
        if (last)
            last->next = (uint32_t)(part - last);
        last = part;
        whole->count++;
    } while (skip(p, ','));
    if (!skip(p, object ? '}' : ']'))
        return wrong(p, object ? "\",\" or \"}\" is needed here"
                               : "\",\" or \"]\" is needed here");
    return object ? names_check(p, whole) : TRYST_OK;
}

static tryst_status value_scan(struct parser *p, const char *name, unsigned depth)
{
    struct json *value = p->value++;
    blanks_skip(p);
    *value = (struct json){.name = name, .offset = (uint32_t)(p->at - p->source->text)};
    switch (peek(p)) {
    case '{': value->kind = JSON_OBJECT; return parts_scan(p, value, depth);
    case '[': value->kind = JSON_LIST; return parts_scan(p, value, depth);
    case '"': value->kind = JSON_STRING; return string_scan(p, &value->string);
    case 't': value->kind = JSON_TRUE; return word_scan(p, "true");
    case 'f': value->kind = JSON_FALSE; return word_scan(p, "false");
    case 'n': return word_scan(p, "null"); /* JSON_NULL is 0 */
    default: return number_scan(p, value);
    }
}

/* ---- the text ---------------------------------------------------------------------- */

/* Return the most values that the text can have: each but the root is behind a bracket
 * or a comma. */
static size_t values_max(const struct source *source)
{
    size_t count = 1;
    for (size_t i = 0; i < source->bytes; i++)
        count +=
            source->text[i] == ',' || source->text[i] == '[' || source->text[i] == '{';
    return count;
}

static tryst_status text_scan(struct parser *p)
{
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* a decimal point */
    if (!plain)
        return source_no_memory(p->source);
    locale_t before = uselocale(plain);
    tryst_status status = value_scan(p, NULL, 0);
    uselocale(before);
    freelocale(plain);
    blanks_skip(p);
    if (status == TRYST_OK && p->at < p->end)
        return wrong(p, "the text goes on after its value");
    return status;
}

tryst_status json_parse(const struct source *source, struct json **root_p)
{
    if (source->bytes > UINT32_MAX)
        return source_refuse(source, (struct text_place){1, 1},
                             "invalid JSON: larger than 4 GiB");
    size_t values = values_max(source);
    struct json *root = mem_alloc(values * sizeof *root + source->bytes + 1);
    if (!root)
        return source_no_memory(source);
    struct parser p = {.source = source,
                       .at = source->text,
                       .end = source->text + source->bytes,
                       .value = root,
                       .string = (char *)(root + values)};
    tryst_status status = text_scan(&p);
    mem_free(p.members);
    if (status == TRYST_OK)
        *root_p = root;
    else
        mem_free(root);
    return status;
}

/* ---- parts ------------------------------------------------------------------------- */

const struct json *json_member(const struct json *object, const char *name)
{
    if (json_is(object, JSON_OBJECT))
        json_for_each (object, member)
            if (strcmp(member->name, name) == 0)
                return member;
    return NULL;
}

const struct json *json_item(const struct json *list, size_t index)
{
    const struct json *item = json_is(list, JSON_LIST) ? json_first(list) : NULL;
    while (index-- > 0)
        item = json_next(item);
    return item;
}
