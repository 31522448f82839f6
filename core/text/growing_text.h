/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A growing text, to which every writer appends.
 *
 * One idea: a failure is kept, so a writer appends without checks and checks once, at the
 * end.
 * Invariant: after a failure nothing is appended; numbers have a decimal point in every
 * locale.
 */
#ifndef TRYST_CORE_TEXT_GROWING_TEXT_H
#define TRYST_CORE_TEXT_GROWING_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "core/text/err.h"

struct text {
    char *data; /**< from mem_alloc; NULL: empty */
    size_t bytes, room;
    bool failed;
};

void text_add(struct text *text, const char *string);
void text_add_bytes(struct text *text, const char *data, size_t bytes);
/** Append as printf in the C locale. */
void text_addf(struct text *text, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/** Append the shortest decimal that reads back as the same double; `value` is finite. */
void text_add_number(struct text *text, double value);
/** Append a JSON string with its quotes; bytes that are not UTF-8 become U+FFFD. */
void text_add_json(struct text *text, const char *string);
/** Append the content and the failure of `piece`; `piece` is empty afterwards. */
void text_join(struct text *text, struct text *piece);
/** Append blanks up to `column` characters (not bytes) from the last line break. */
void text_pad(struct text *text, size_t column);

/** Set `*string_p` to the string, which the caller frees by mem_free, and empty `text`.
 *  TRYST_E_NOMEM after a failure. */
tryst_status text_release(struct text *text, struct err *err, char **string_p);
void text_drop(struct text *text);

#endif
