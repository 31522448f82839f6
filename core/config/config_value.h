/* SPDX-License-Identifier: Apache-2.0 */
/* One row of the configuration table, and the text of one value: parse, check, print.
 *
 * One idea: a value is a 64-bit number whatever its type (for a string its hash), so the
 * config and the comparison between ranks treat all rows alike. Private to core/:
 * config.c and its tests. */
#ifndef TRYST_CORE_CONFIG_CONFIG_VALUE_H
#define TRYST_CORE_CONFIG_CONFIG_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum config_type {
    CONFIG_TYPE_BYTES,
    CONFIG_TYPE_TIME,
    CONFIG_TYPE_ENUM,
    CONFIG_TYPE_BOOL,
    CONFIG_TYPE_INT,
    CONFIG_TYPE_STRING
};

struct config_row {
    const char *name, *environment;
    enum config_type type;
    const char *fallback, *allowed;
    int flags;
    const char *help;
};

/** Parse `text`. False if the row does not allow it. */
bool value_parse(const struct config_row *row, const char *text, uint64_t *value_p);

/** Write text that parses back to `value` (for a string its hash in hex, which does
 *  not). */
void value_format(const struct config_row *row, uint64_t value, char *text_p,
                  size_t text_bytes);

/** Write what the row allows: "a number of bytes such as 4096, 64K or 4MiB, from 4K to
 *  1T". */
void value_describe(const struct config_row *row, char *text_p, size_t text_bytes);

/** Return the name of a type ("BYTES"). */
const char *value_type_name(enum config_type type);

#endif
