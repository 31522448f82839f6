/* SPDX-License-Identifier: Apache-2.0 */
/** @file source.h
 *  A text that a reader turns into something, and how the reader rejects the text.
 *
 *  One idea: all errors have one form, "name:line:column: reason", so editors and people
 *  find the place.
 */
#ifndef TRYST_CORE_SOURCE_SOURCE_H
#define TRYST_CORE_SOURCE_SOURCE_H

#include <stddef.h>

#include "core/text/err.h"

struct source {
    const char *text;
    size_t bytes;
    const char *name;
    struct err *err; /**< where errors are written; may be NULL */
};

struct text_place {
    unsigned line, column; /**< from 1; columns are characters */
};

/** Return the place of the byte at `offset` in `text`. */
struct text_place text_place_at(const char *text, size_t bytes, size_t offset);

/** Read the file at `path` ("-": standard input) of at most 1 GiB. The caller frees
 *  *text_p by mem_free, *bytes_p bytes, not terminated; *name_p, for errors, is `path` or
 *  static. TRYST_E_IO, TRYST_E_INVALID: too large; TRYST_E_NOMEM. */
tryst_status source_load(const char *path, struct err *err, const char **name_p,
                         char **text_p, size_t *bytes_p);

/** As source_load but, if no file is named `path` and `path` has a ':' and no '/', the
 *  text is `path` itself ("node:4 gpu:8", a synthetic machine). */
tryst_status source_load_or_words(const char *path, struct err *err, const char **name_p,
                                  char **text_p, size_t *bytes_p);

/** Write "name:line:column: reason" to source->err; a column of 0 is left out. Return
 *  TRYST_E_INVALID. */
tryst_status source_refuse(const struct source *source, struct text_place place,
                           const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/** Write an out-of-memory message to source->err. Return TRYST_E_NOMEM. */
tryst_status source_no_memory(const struct source *source);

/** Return `status`. Where it is a failure, its message `why` goes to
 *  source->err; a message of TRYST_E_INVALID is prefixed by `place`. */
tryst_status source_judge(const struct source *source, struct text_place place,
                          tryst_status status, const struct err *why);

#endif
