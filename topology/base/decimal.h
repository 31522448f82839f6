/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read decimal numbers from foreign text in every locale (strtod depends on the locale).
 */
#ifndef TRYST_TOPOLOGY_BASE_DECIMAL_H
#define TRYST_TOPOLOGY_BASE_DECIMAL_H

#include <stddef.h>

/** Read "12" or "12.5" at the beginning of `text`, which holds `bytes` bytes and needs no
 *  NUL. Return the number of bytes read; 0 if `text` does not begin with a number. Once
 *  the whole part has reached 1e18, its further digits are ignored, so the value stays
 *  below 1e19. Of a fraction, digits after the fifteenth are ignored. */
size_t decimal_read(const char *text, size_t bytes, double *value_p);

#endif
