/* SPDX-License-Identifier: Apache-2.0 */
/* Text of other processes, made safe to show, and text that is built in pieces.
 *
 * One idea: a peer's text ends up in sentences, logs, JSON and terminals, so it is made
 * safe once, where it is read: printable UTF-8 stays, every other byte becomes \xHH.
 * Invariant: the result is valid UTF-8 without control characters (C0, DEL, C1), and
 * making it safe again changes nothing, so a text may pass through many ranks. */
#ifndef TRYST_CORE_TEXT_TEXT_H
#define TRYST_CORE_TEXT_TEXT_H

#include <stddef.h>

/** Return the length of the character at `at`, of at most `bytes` bytes; 0 if that is not
 *  valid UTF-8 (overlong, a surrogate, cut off). */
size_t text_utf8_bytes(const char *at, size_t bytes);

/** Return the same as text_utf8_bytes, but 0 for a control character too. */
size_t text_char_bytes(const char *at, size_t bytes);

/** Return the length to which to cut `text`, which is longer than `bytes`, so that at
 *  most `bytes` bytes remain and no character is cut in two. */
size_t text_cut(const char *text, size_t bytes);

/** Make `bytes` bytes at `data` safe (no terminator needed; NULL only with 0 bytes) and
 *  write them to `text` of `capacity` (at least 1) bytes, terminated. A text that does
 *  not fit is cut, but no character or \xHH is cut in two. Returns the length of `text`.
 *  `data` and `text` must not overlap. */
size_t text_escape(const void *data, size_t bytes, char *text, size_t capacity);

/** Write the next character of the terminated text at `*at_p` to `piece`, as JSON has it
 *  inside a string (not terminated), and move `*at_p` behind it. Returns the length of
 *  `piece`, 0 at the end. Bytes that are not UTF-8 become U+FFFD. */
enum { TEXT_PIECE_BYTES = 8 };
size_t text_json_piece(const char **at_p, char piece[TEXT_PIECE_BYTES]);

/** Append to `text`, a terminated text in `capacity` bytes; what does not fit is cut at a
 *  whole character. Returns the length of the whole text. */
size_t text_append(char *text, size_t capacity, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
