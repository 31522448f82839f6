/* SPDX-License-Identifier: Apache-2.0 */
/* Whole numbers in text, independent of the locale and of errno: decimal digits only, no
 * sign, no blank; a number of more than 64 bits is refused. */
#ifndef TRYST_CORE_TEXT_NUMBER_H
#define TRYST_CORE_TEXT_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/** Read the number that `*text_p` begins with, and move `*text_p` behind its digits.
 *  False, with nothing changed, if there is no digit or the number exceeds 64 bits. */
bool number_read(const char **text_p, uint64_t *number_p);

/** Read `text` as one number. False, with nothing changed, if the number exceeds `most`
 *  or there is anything else in `text`. */
bool number_parse(const char *text, uint64_t most, uint64_t *number_p);

#endif
