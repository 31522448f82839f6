/* SPDX-License-Identifier: Apache-2.0 */
/* See growing_text.h. Room doubles, so the bytes of a large text are copied only a few
 * times. */
#include "growing_text.h"

#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/text/text.h"

#define ROOM_FIRST 1024

/* Make room for `more` bytes and the NUL. */
static bool room_make(struct text *text, size_t more)
{
    if (text->failed)
        return false;
    if (text->room - text->bytes > more)
        return true;
    size_t room = text->room ? text->room : ROOM_FIRST;
    while (room - text->bytes <= more)
        room *= 2;
    char *data = mem_resize(text->data, room);
    if (!data) {
        text->failed = true;
        return false;
    }
    text->data = data;
    text->room = room;
    return true;
}

void text_add_bytes(struct text *text, const char *data, size_t bytes)
{
    if (!room_make(text, bytes))
        return;
    memcpy(text->data + text->bytes, data, bytes);
    text->bytes += bytes;
    text->data[text->bytes] = '\0';
}

void text_add(struct text *text, const char *string)
{
    text_add_bytes(text, string, strlen(string));
}

/* Format in the C locale: the host program may have set a locale with a comma (or two
 * bytes) as its decimal point. */
void text_addf(struct text *text, const char *fmt, ...)
{
    va_list args, again;
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    locale_t before = uselocale(plain);
    va_start(args, fmt);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, fmt, args);
    if (length >= 0 && room_make(text, (size_t)length)) {
        vsnprintf(text->data + text->bytes, (size_t)length + 1, fmt, again);
        text->bytes += (size_t)length;
    }
    va_end(again);
    va_end(args);
    uselocale(before);
    if (plain)
        freelocale(plain);
}

void text_add_number(struct text *text, double value)
{
    char digits[40];
    int precision = 14;
    do
        snprintf(digits, sizeof digits, "%.*g", ++precision, value);
    while (precision < 17 && strtod(digits, NULL) != value);
    text_addf(text, "%.*g", precision, value);
}

void text_add_json(struct text *text, const char *string)
{
    char piece[TEXT_PIECE_BYTES];
    size_t bytes;
    text_add(text, "\"");
    while ((bytes = text_json_piece(&string, piece)) > 0)
        text_add_bytes(text, piece, bytes);
    text_add(text, "\"");
}

void text_join(struct text *text, struct text *piece)
{
    if (piece->data)
        text_add_bytes(text, piece->data, piece->bytes);
    text->failed = text->failed || piece->failed;
    text_drop(piece);
}

void text_pad(struct text *text, size_t column)
{
    size_t at = text->bytes, characters = 0;
    while (at > 0 && text->data[at - 1] != '\n')
        characters += (text->data[--at] & 0xc0) != 0x80;
    for (; characters < column && !text->failed; characters++)
        text_add(text, " ");
}

tryst_status text_release(struct text *text, struct err *err, char **string_p)
{
    text_add(text, "");
    if (text->failed) {
        text_drop(text);
        return err_set(err, TRYST_E_NOMEM, "cannot write a text: out of memory");
    }
    *string_p = text->data;
    *text = (struct text){0};
    return TRYST_OK;
}

void text_drop(struct text *text)
{
    mem_free(text->data);
    *text = (struct text){0};
}
