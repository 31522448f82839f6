/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Find the line and column of a value in a JSON text.
 *
 * One idea: jansson reports the place of a syntax error, but not the place of a value
 * that is rejected later. Only then is the text, known to be JSON, searched for the
 * value, so a valid file costs nothing.
 */
#ifndef TRYST_CORE_SOURCE_JSON_PLACE_H
#define TRYST_CORE_SOURCE_JSON_PLACE_H

#include <stddef.h>

/** One step from a value to its part: the member `name` or, if `name` is NULL, the item
 *  at `index`. */
struct json_step {
    const char *name;
    size_t index;
};

struct text_place {
    unsigned line, column; /**< from 1; columns are characters */
};

/** Return the place of the byte at `offset` in `text`. */
struct text_place text_place_at(const char *text, size_t bytes, size_t offset);

/** Return the place where the value at the end of `steps` begins; if a step has no such
 *  value, the place of the last value reached. jansson has parsed `text` without an
 *  error. */
struct text_place json_place(const char *text, size_t bytes,
                             const struct json_step *steps, size_t steps_count);

#endif
