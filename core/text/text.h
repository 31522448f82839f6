/* SPDX-License-Identifier: Apache-2.0 */
/* Text from elsewhere, as it may be shown, and sentences that are put together.
 *
 * One idea: what a peer says goes into sentences, logs, JSON and terminals, so it is made safe where
 * it is read, once: printable UTF-8 stays, every other byte becomes \xHH. Invariant: the result is
 * valid UTF-8 without control characters (C0, DEL, C1), and making it safe again changes nothing, so
 * a text may pass through many ranks. Callers: whoever reads text that another process wrote. */
#ifndef TRYST_CORE_TEXT_H
#define TRYST_CORE_TEXT_H

#include <stddef.h>

/* Bytes of the character that begins at `at`, of which `bytes` are there: 0 where that is no valid
 * UTF-8 (overlong, a surrogate, cut off). */
size_t text_utf8_bytes(const char *at, size_t bytes);

/* The same, and 0 for a control character too. */
size_t text_char_bytes(const char *at, size_t bytes);

/* Where to cut `text` so that at most `bytes` are left and no character is cut in two; there are more. */
size_t text_cut(const char *text, size_t bytes);

/* `bytes` bytes at `data`, which need no end (NULL: there are none), as a terminated text in `text`
 * of `capacity` (at least 1) bytes; what is beyond it is left out, but no character or \xHH is cut
 * in two. Returns the length. The two must not overlap. */
size_t text_escape(const void *data, size_t bytes, char *text, size_t capacity);

/* The next character of the terminated text at `*at_p` as it stands inside a JSON string, in `piece` (not
 * terminated); moves `*at_p` behind it. Returns its bytes, 0 at the end. What is no UTF-8 becomes U+FFFD. */
enum { TEXT_PIECE_BYTES = 8 };
size_t text_json_piece(const char **at_p, char piece[TEXT_PIECE_BYTES]);

/* Writes behind what `text`, a terminated text in `capacity` bytes, holds; what does not fit is cut at a
 * whole character. Returns the length of the text. */
size_t text_append(char *text, size_t capacity, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
