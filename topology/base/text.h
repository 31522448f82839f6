/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A text that grows: what every writer of this layer appends to.
 *
 * One idea: a failure sticks, so a writer appends without looking and asks once, at the end.
 * Invariant: after a failure nothing is appended any more; numbers have a decimal point whatever the locale.
 * Callers: writers of files, pictures and plans.
 */
#ifndef TRYST_TOPOLOGY_TEXT_H
#define TRYST_TOPOLOGY_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "core/text/err.h"

struct text {
    char *data; /* mem_alloc's; NULL: nothing yet */
    size_t bytes, room;
    bool failed;
};

void text_add(struct text *text, const char *string);
void text_add_bytes(struct text *text, const char *data, size_t bytes);
/* As printf in the C locale. */
void text_addf(struct text *text, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* The shortest decimal that reads back as the same double. Finite. */
void text_add_number(struct text *text, double value);
/* With `decimals` digits behind the point. */
void text_add_fixed(struct text *text, double value, int decimals);
/* As JSON, with its quotes; what is no UTF-8 becomes U+FFFD. */
void text_add_json(struct text *text, const char *string);
/* As the content of XML, or of an attribute in double quotes. */
void text_add_xml(struct text *text, const char *string);
/* What `piece` has become, or its failure; `piece` is empty afterwards. */
void text_join(struct text *text, struct text *piece);
/* Blanks up to `column` characters (not bytes) from the last line break. */
void text_pad(struct text *text, size_t column);

/* Hands the string over (mem_free) or says TRYST_E_NOMEM; `text` is empty afterwards. */
tryst_status text_take(struct text *text, struct err *err, char **string_p);
void text_drop(struct text *text);

#endif
