/* SPDX-License-Identifier: Apache-2.0 */
/* Builds sentences piece by piece in a buffer.
 *
 * A text that does not fit is cut and stays terminated. If the buffer is NULL or its
 * capacity 0, all text is dropped. */
#ifndef TRYST_PIPELINE_BASE_SENTENCE_H
#define TRYST_PIPELINE_BASE_SENTENCE_H

#include <stdarg.h>
#include <stdio.h>
#include <tryst/types.h>

/** Size of a buffer for the longest text: tryst_last_error keeps no more bytes. */
#define TRYST_PIPELINE_TEXT_MAX 65536

struct sentence {
    char *data;
    size_t capacity;
    size_t used; /**< bytes of all pieces so far, including those that were cut */
};

static inline struct sentence sentence_begin(char *data, size_t capacity)
{
    if (data && capacity > 0) {
        data[0] = '\0';
    }
    return (struct sentence){.data = data, .capacity = data ? capacity : 0};
}

TRYST_PRINTF(2, 3)
static inline void sentence_add(struct sentence *out, const char *format, ...)
{
    size_t room = out->used < out->capacity ? out->capacity - out->used : 0;
    va_list args;
    va_start(args, format);
    int wanted = vsnprintf(room ? out->data + out->used : NULL, room, format, args);
    va_end(args);
    if (wanted > 0) {
        out->used += (size_t)wanted;
    }
}

#endif
