/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A decimal number in a text of others, whatever the locale (strtod reads by it).
 * Callers: readers of files and of /sys.
 */
#ifndef TRYST_TOPOLOGY_DECIMAL_H
#define TRYST_TOPOLOGY_DECIMAL_H

#include <stddef.h>

/** "12" or "12.5" at the beginning of `text`, which has `bytes` bytes and need not end. Returns how many of them the
 *  number takes, 0 for none. One beyond 1e18 counts as about that; digits behind the fifteenth of a fraction count for
 *  nothing. */
size_t decimal_read(const char *text, size_t bytes, double *value_p);

#endif
