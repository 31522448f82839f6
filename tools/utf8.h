/* SPDX-License-Identifier: Apache-2.0 */
/** @file utf8.h
 *  Characters of texts from elsewhere, which may be no UTF-8.
 */
#ifndef TRYST_TOOLS_UTF8_H
#define TRYST_TOOLS_UTF8_H

#include <stdbool.h>

/** U+FFFD, written for bytes that are no character. */
#define TOOL_NO_CHAR "\xef\xbf\xbd"

/** Return the length in bytes of the character at `at`, which is not the end of its
 *  text; 0: the bytes there are no UTF-8, or no character (U+FFFE, U+FFFF). */
static inline int tool_char_bytes(const char *at)
{
    static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *c = (const unsigned char *)at;
    if (c[0] < 0x80)
        return 1;
    int length = c[0] < 0xe0 ? 2 : c[0] < 0xf0 ? 3 : 4;
    unsigned code = c[0] & (0x7fu >> length);
    for (int i = 1; i < length; i++) {
        if ((c[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (c[i] & 0x3fu);
    }
    bool is_char = c[0] >= 0xc0 && c[0] < 0xf8 && code >= least[length] &&
                   (code < 0xd800 || code > 0xdfff) && code <= 0x10ffff &&
                   (code & 0xfffe) != 0xfffe;
    return is_char ? length : 0;
}

#endif
