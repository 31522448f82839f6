/* SPDX-License-Identifier: Apache-2.0 */
/* Text of other processes; see text.h. */
#include "core/text/text.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { ESCAPE_BYTES = 4 }; /* \xHH */

/* Return the code point of the `length` bytes at `at`; the first byte announces that
 * length. 0 if one of the others is not a continuation byte. */
static uint32_t code_point(const unsigned char *at, size_t length)
{
    uint32_t code = at[0] & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (at[i] & 0x3fu);
    }
    return code;
}

size_t text_utf8_bytes(const char *text, size_t bytes)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *at = (const unsigned char *)text;
    if (bytes && at[0] < 0x80)
        return 1;
    size_t length = !bytes || at[0] < 0xc0 ? 0
                    : at[0] < 0xe0         ? 2
                    : at[0] < 0xf0         ? 3
                    : at[0] < 0xf8         ? 4
                                           : 0;
    if (!length || length > bytes)
        return 0;
    uint32_t code = code_point(at, length);
    bool surrogate = code >= 0xd800 && code <= 0xdfff;
    return code >= least[length] && code <= 0x10ffff && !surrogate ? length : 0;
}

size_t text_char_bytes(const char *text, size_t bytes)
{
    const unsigned char *at = (const unsigned char *)text;
    size_t length = text_utf8_bytes(text, bytes);
    bool c0 = length == 1 && (at[0] < 0x20 || at[0] == 0x7f);
    bool c1 = length == 2 && at[0] == 0xc2 && at[1] < 0xa0;
    return c0 || c1 ? 0 : length;
}

size_t text_cut(const char *text, size_t bytes)
{
    while (bytes > 0 && ((unsigned char)text[bytes] & 0xc0) == 0x80)
        bytes--;
    return bytes;
}

/* Return the length of the \xHH at `at`, which an earlier text_escape has written; 0 if
 * there is none. */
static size_t escape_bytes(const char *at, size_t bytes)
{
    return bytes >= ESCAPE_BYTES && at[0] == '\\' && at[1] == 'x' &&
                   isxdigit((unsigned char)at[2]) && isxdigit((unsigned char)at[3])
               ? ESCAPE_BYTES
               : 0;
}

size_t text_escape(const void *data, size_t bytes, char *text, size_t capacity)
{
    static const char digits[] = "0123456789abcdef";
    size_t used = 0;
    for (size_t i = 0; i < bytes;) {
        const char *at = (const char *)data + i;
        size_t length = escape_bytes(at, bytes - i);
        length = length ? length : text_char_bytes(at, bytes - i);
        if (used + (length ? length : ESCAPE_BYTES) >= capacity)
            break;
        if (length) {
            memcpy(text + used, at, length);
        } else {
            unsigned char c = (unsigned char)*at;
            const char escape[] = {'\\', 'x', digits[c >> 4], digits[c & 15]};
            memcpy(text + used, escape, sizeof escape);
        }
        used += length ? length : ESCAPE_BYTES;
        i += length ? length : 1;
    }
    text[used] = '\0';
    return used;
}

size_t text_json_piece(const char **at_p, char piece[TEXT_PIECE_BYTES])
{
    const char *at = *at_p;
    size_t length = text_utf8_bytes(at, strnlen(at, 4));
    if (!*at)
        return 0;
    *at_p += length ? length : 1;
    if (!length)
        return (size_t)snprintf(piece, TEXT_PIECE_BYTES, "\\ufffd");
    if (*at == '"' || *at == '\\')
        return (size_t)snprintf(piece, TEXT_PIECE_BYTES, "\\%c", *at);
    if ((unsigned char)*at < 0x20)
        return (size_t)snprintf(piece, TEXT_PIECE_BYTES, "\\u%04x", (unsigned)*at);
    memcpy(piece, at, length);
    return length;
}

/* Return the length to which to cut a text that did not fit, so that its last character
 * is whole. */
static size_t whole_bytes(const char *text, size_t bytes)
{
    size_t last = bytes ? text_cut(text, bytes - 1) : 0;
    return text_utf8_bytes(text + last, bytes - last) ? bytes : last;
}

size_t text_append(char *text, size_t capacity, const char *fmt, ...)
{
    size_t used = strlen(text), room = capacity - used;
    va_list args;
    va_start(args, fmt);
    int length = vsnprintf(text + used, room, fmt, args);
    va_end(args);
    if (length > 0)
        used = (size_t)length < room ? used + (size_t)length
                                     : whole_bytes(text, capacity - 1);
    text[used] = '\0';
    return used;
}
