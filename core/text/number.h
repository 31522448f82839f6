/* SPDX-License-Identifier: Apache-2.0 */
/* Whole numbers in text, independent of the locale and of errno: no sign, no blank, no base but ten,
 * nothing that wraps around. Callers: whoever reads a number that a person or another process wrote. */
#ifndef TRYST_CORE_NUMBER_H
#define TRYST_CORE_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/* The number whose digits `*text_p` begins with; moves `*text_p` behind them. False, and nothing
 * changed, without a digit or beyond 64 bits. */
bool number_read(const char **text_p, uint64_t *number_p);

/* The same where the whole of `text` is a number, and at most `most`. */
bool number_parse(const char *text, uint64_t most, uint64_t *number_p);

#endif
