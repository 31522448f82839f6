/* SPDX-License-Identifier: Apache-2.0 */
/* Parsing, checking and printing of one value's text; see config_value.h.
 *
 * A number with a unit is parsed by one table of units for each type. Limits are kept as
 * text ("4K..1T") and parsed by the same code as the values that they limit. */
#include "config_value.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "core/config/config.h"
#include "core/text/hash.h"
#include "core/text/number.h"

struct unit {
    const char *name;
    uint64_t factor;
};

#define KIB ((uint64_t)1024)

static const struct unit bytes_units[] = {
    {"", 1},
    {"K", KIB},
    {"KiB", KIB},
    {"M", KIB *KIB},
    {"MiB", KIB *KIB},
    {"G", KIB *KIB *KIB},
    {"GiB", KIB *KIB *KIB},
    {"T", KIB *KIB *KIB *KIB},
    {"TiB", KIB *KIB *KIB *KIB},
    {NULL, 0},
};

static const struct unit time_units[] = {
    {"ns", 1},       {"us", NS_PER_US},    {"ms", NS_PER_MS},
    {"s", NS_PER_S}, {"m", 60 * NS_PER_S}, {"h", 3600 * NS_PER_S},
    {NULL, 0},
};

/* True if `text` is this unit. A one-letter unit of bytes may be in either case (64k);
 * longer units and units of time may not (4MIB is refused). */
static bool unit_is(const struct unit *unit, const char *text)
{
    if (strcmp(unit->name, text) == 0)
        return true;
    return strlen(text) == 1 && unit->factor % KIB == 0 &&
           toupper((unsigned char)text[0]) == unit->name[0] && unit->name[1] == '\0';
}

static bool number_with_unit(const char *text, const struct unit *units,
                             uint64_t *value_p)
{
    uint64_t number;
    if (!number_read(&text, &number))
        return false;
    if (number == 0 && *text == '\0') {
        *value_p = 0;
        return true;
    }
    for (const struct unit *unit = units; unit->name; unit++) {
        if (unit_is(unit, text)) {
            uint64_t value;
            if (__builtin_mul_overflow(number, unit->factor, &value))
                return false;
            *value_p = value;
            return true;
        }
    }
    return false;
}

static bool int_parse(const char *text, uint64_t *value_p)
{
    bool negative = *text == '-';
    uint64_t number;
    text += negative;
    if (!number_read(&text, &number) || *text != '\0' || number > INT64_MAX)
        return false;
    *value_p = negative ? -number : number;
    return true;
}

/* Return word `index` (from 0) of "a|b|c", with its length in *length_p; NULL if there is
 * none. */
static const char *value_word(const char *words, size_t index, size_t *length_p)
{
    for (; index > 0; index--) {
        words = strchr(words, '|');
        if (!words)
            return NULL;
        words++;
    }
    *length_p = strcspn(words, "|");
    return words;
}

/* Find `text` among the words. False if it is none of them. */
static bool word_find(const char *words, const char *text, uint64_t *index_p)
{
    size_t length;
    const char *word;
    for (size_t i = 0; (word = value_word(words, i, &length)); i++) {
        if (strlen(text) == length && strncmp(word, text, length) == 0) {
            *index_p = i;
            return true;
        }
    }
    return false;
}

static bool bool_parse(const char *text, uint64_t *value_p)
{
    static const char *const words[2] = {"0|n|no|off|false", "1|y|yes|on|true"};
    for (uint64_t value = 0, index; value < 2; value++)
        if (word_find(words[value], text, &index)) {
            *value_p = value;
            return true;
        }
    return false;
}

/* Parse `text` by the row's type, without its limits. */
static bool text_parse(const struct config_row *row, const char *text, uint64_t *value_p)
{
    switch (row->type) {
    case CONFIG_TYPE_BYTES: return number_with_unit(text, bytes_units, value_p);
    case CONFIG_TYPE_TIME: return number_with_unit(text, time_units, value_p);
    case CONFIG_TYPE_ENUM: return word_find(row->allowed, text, value_p);
    case CONFIG_TYPE_BOOL: return bool_parse(text, value_p);
    case CONFIG_TYPE_INT: return int_parse(text, value_p);
    case CONFIG_TYPE_STRING: *value_p = hash_bytes(text, strlen(text)); return true;
    }
    return false;
}

/* The value that a row with limits "auto|…" also takes; it is stored as 0. */
static const char auto_word[] = "auto";

static bool takes_auto(const struct config_row *row)
{
    return row->type != CONFIG_TYPE_ENUM && strncmp(row->allowed, "auto|", 5) == 0;
}

/* Split "min..max" of a row that has limits. False for a row without. */
static bool limits_split(const struct config_row *row, char min_p[32], char max_p[32])
{
    const char *limits = row->allowed + (takes_auto(row) ? sizeof auto_word : 0);
    const char *dots = strstr(limits, "..");
    bool numeric = row->type == CONFIG_TYPE_BYTES || row->type == CONFIG_TYPE_TIME ||
                   row->type == CONFIG_TYPE_INT;
    if (!numeric || !dots)
        return false;
    snprintf(min_p, 32, "%.*s", (int)(dots - limits), limits);
    snprintf(max_p, 32, "%s", dots + 2);
    return true;
}

static bool within_limits(const struct config_row *row, uint64_t value)
{
    char min_text[32], max_text[32];
    uint64_t min, max;
    if (!limits_split(row, min_text, max_text))
        return true;
    if (!text_parse(row, min_text, &min) || !text_parse(row, max_text, &max))
        return false;
    if (row->type == CONFIG_TYPE_INT)
        return (int64_t)min <= (int64_t)value && (int64_t)value <= (int64_t)max;
    return min <= value && value <= max;
}

bool value_parse(const struct config_row *row, const char *text, uint64_t *value_p)
{
    uint64_t value = 0;
    bool is_auto = takes_auto(row) && strcmp(text, auto_word) == 0;
    if (!is_auto && (!text_parse(row, text, &value) || !within_limits(row, value)))
        return false;
    *value_p = value;
    return true;
}

/* Write `value` with the largest unit that divides it evenly; of equal units (K and KiB)
 * the first. */
static void format_with_unit(const struct unit *units, uint64_t value, char *text_p,
                             size_t text_bytes)
{
    const struct unit *best = units;
    for (const struct unit *unit = units; unit->name && value > 0; unit++)
        if (value % unit->factor == 0 && unit->factor > best->factor)
            best = unit;
    snprintf(text_p, text_bytes, "%llu%s", (unsigned long long)(value / best->factor),
             best->name);
}

void value_format(const struct config_row *row, uint64_t value, char *text_p,
                  size_t text_bytes)
{
    size_t length = 0;
    if (takes_auto(row) && value == 0) {
        snprintf(text_p, text_bytes, "%s", auto_word);
        return;
    }
    switch (row->type) {
    case CONFIG_TYPE_BYTES:
        format_with_unit(bytes_units, value, text_p, text_bytes);
        break;
    case CONFIG_TYPE_TIME: format_with_unit(time_units, value, text_p, text_bytes); break;
    case CONFIG_TYPE_ENUM: {
        const char *word = value_word(row->allowed, value, &length);
        snprintf(text_p, text_bytes, "%.*s", word ? (int)length : 1, word ? word : "?");
        break;
    }
    case CONFIG_TYPE_BOOL: snprintf(text_p, text_bytes, "%d", value != 0); break;
    case CONFIG_TYPE_INT: snprintf(text_p, text_bytes, "%lld", (long long)value); break;
    case CONFIG_TYPE_STRING:
        snprintf(text_p, text_bytes, "(text #%016llx)", (unsigned long long)value);
        break;
    }
}

void value_describe(const struct config_row *row, char *text_p, size_t text_bytes)
{
    static const char *const forms[] = {
        [CONFIG_TYPE_BYTES] = "a number of bytes such as 4096, 64K or 4MiB",
        [CONFIG_TYPE_TIME] = "a time such as 50us, 500ms, 60s or 5m",
        [CONFIG_TYPE_ENUM] = "one of",
        [CONFIG_TYPE_BOOL] = "1 or 0 (y, n, yes, no, on, off, true, false)",
        [CONFIG_TYPE_INT] = "a whole number",
        [CONFIG_TYPE_STRING] = "text:",
    };
    char min[32], max[32];
    const char *form = forms[row->type];
    if (limits_split(row, min, max))
        snprintf(text_p, text_bytes, "%s, from %s to %s%s", form, min, max,
                 takes_auto(row) ? ", or auto" : "");
    else if (row->allowed[0])
        snprintf(text_p, text_bytes, "%s %s", form, row->allowed);
    else
        snprintf(text_p, text_bytes, "%s", form);
}

const char *value_type_name(enum config_type type)
{
    static const char *const names[] = {"BYTES", "TIME", "ENUM", "BOOL", "INT", "STRING"};
    return names[type];
}
