/* SPDX-License-Identifier: Apache-2.0 */
/* Whole numbers in text; see number.h. */
#include "core/text/number.h"

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool number_read(const char **text_p, uint64_t *number_p)
{
    const char *text = *text_p;
    uint64_t number = 0;
    if (!is_digit(*text))
        return false;
    for (; is_digit(*text); text++) {
        if (__builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, (uint64_t)(*text - '0'), &number))
            return false;
    }
    *text_p = text;
    *number_p = number;
    return true;
}

bool number_parse(const char *text, uint64_t most, uint64_t *number_p)
{
    uint64_t number;
    if (!number_read(&text, &number) || *text != '\0' || number > most)
        return false;
    *number_p = number;
    return true;
}
