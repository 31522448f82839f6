/* SPDX-License-Identifier: Apache-2.0 */
/** @file json.h
 *  Parse a JSON text (RFC 8259) into an array of values.
 *
 *  One idea: a value has its offset in the text, so a reader that rejects the value
 *  later reports its line and column (json_reader.h).
 *  Invariant: values are in the order of the text, so what a list or an object contains
 *  follows it. Every function accepts NULL, a value that is missing: it has no kind, no
 *  parts, no string and no number.
 */
#ifndef TRYST_CORE_SOURCE_JSON_H
#define TRYST_CORE_SOURCE_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "source.h"

/** The deepest nesting of lists and objects. */
enum { JSON_DEPTH_MAX = 100 };

enum json_kind {
    JSON_NULL,
    JSON_FALSE,
    JSON_TRUE,
    JSON_WHOLE, /**< a number without fraction and exponent */
    JSON_REAL,  /**< any other number */
    JSON_STRING,
    JSON_LIST,
    JSON_OBJECT
};

struct json {
    const char *name; /**< of a member; NULL: an item of a list, or the root */
    union {
        const char *string; /**< UTF-8 */
        int64_t whole;
        double real; /**< finite */
    };
    enum json_kind kind;
    uint32_t count;  /**< items of a list, members of an object */
    uint32_t offset; /**< in the text, in bytes */
    uint32_t next; /**< distance in values to the next item or member; 0: the last one */
};

/** Parse source->text. Names of an object are distinct; a string contains no NUL. The
 *  caller frees all values and strings by mem_free(*root_p).
 *  TRYST_E_INVALID: not such a text; TRYST_E_NOMEM. The error is in source->err. */
tryst_status json_parse(const struct source *source, struct json **root_p);

/** Return the member `name` of an object, or NULL. The time grows with the members. */
const struct json *json_member(const struct json *object, const char *name);
/** Return the item `index` of a list, or NULL. The time grows with `index`. */
const struct json *json_item(const struct json *list, size_t index);

static inline const struct json *json_first(const struct json *value)
{
    return value && value->count ? value + 1 : NULL;
}

static inline const struct json *json_next(const struct json *value)
{
    return value && value->next ? value + value->next : NULL;
}

/** Walk the items of a list or the members of an object. */
#define json_for_each(value, part) \
    for (const struct json *part = json_first(value); part; part = json_next(part))

static inline bool json_is(const struct json *value, enum json_kind kind)
{
    return value && value->kind == kind;
}

static inline bool json_is_number(const struct json *value)
{
    return json_is(value, JSON_WHOLE) || json_is(value, JSON_REAL);
}

/** Return the number of items of a list. */
static inline size_t json_count(const struct json *value)
{
    return json_is(value, JSON_LIST) ? value->count : 0;
}

/** Return the string, or NULL for another value. */
static inline const char *json_string_of(const struct json *value)
{
    return json_is(value, JSON_STRING) ? value->string : NULL;
}

/** Return the number, or 0 for another value. */
static inline double json_number_of(const struct json *value)
{
    return json_is(value, JSON_WHOLE)  ? (double)value->whole
           : json_is(value, JSON_REAL) ? value->real
                                       : 0;
}

/** True, with the number in *number_p, if the value is a whole number from `min` to
 *  `max`. */
static inline bool json_whole_get(const struct json *value, int64_t min, int64_t max,
                                  int64_t *number_p)
{
    bool valid = json_is(value, JSON_WHOLE) && value->whole >= min && value->whole <= max;
    if (valid)
        *number_p = value->whole;
    return valid;
}

#endif
