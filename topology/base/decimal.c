/* SPDX-License-Identifier: Apache-2.0 */
/* See decimal.h. */
#include "decimal.h"

#include <stdbool.h>

static bool is_digit(const char *text, size_t bytes, size_t at)
{
    return at < bytes && text[at] >= '0' && text[at] <= '9';
}

size_t decimal_read(const char *text, size_t bytes, double *value_p)
{
    double value = 0, scale = 1;
    size_t at = 0;
    for (; is_digit(text, bytes, at); at++)
        value = value < 1e18 ? value * 10 + (text[at] - '0') : value;
    if (at == 0)
        return 0;
    if (text[at < bytes ? at : 0] == '.' && is_digit(text, bytes, at + 1))
        for (at++; is_digit(text, bytes, at); at++) {
            if (scale >= 1e15)
                continue;
            value = value * 10 + (text[at] - '0');
            scale *= 10;
        }
    *value_p = value / scale;
    return at;
}
