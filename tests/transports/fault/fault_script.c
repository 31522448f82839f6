/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fault scripts as text (fault_script.h). A table row per item holds its name, type and
 * place.
 */
#include "fault_script.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/text/number.h"
#include "core/text/text.h"

enum type {
    NUMBER,      /* digits */
    TIME,        /* microseconds, up to 10 s */
    SHARE,       /* 0 to 1 */
    SHARE_BELOW, /* 0 to below 1: with AGAIN at every call no call would succeed */
    TYPES
};

static const char *const wants[TYPES] = {
    [NUMBER] = "a number",
    [TIME] = "microseconds, up to 10000000",
    [SHARE] = "a share, 0 to 1",
    [SHARE_BELOW] = "a share, 0 to below 1",
};

#define TIME_MAX UINT64_C(10000000)

static const struct item {
    const char *name;
    enum type type;
    size_t at;
} items[] = {
    {"seed", NUMBER, offsetof(struct fault_script, seed)},
    {"rank", NUMBER, offsetof(struct fault_script, rank)},
    {"again", SHARE_BELOW, offsetof(struct fault_script, again)},
    {"delay_us", TIME, offsetof(struct fault_script, delay_us)},
    {"reorder", SHARE, offsetof(struct fault_script, reorder)},
    {"unregistered", SHARE, offsetof(struct fault_script, unregistered)},
    {"drop_every", NUMBER, offsetof(struct fault_script, drop_every)},
    {"drop_after", NUMBER, offsetof(struct fault_script, drop_after)},
    {"kill", NUMBER, offsetof(struct fault_script, kill)},
    {"kill_read", NUMBER, offsetof(struct fault_script, kill_read)},
    {"silent", NUMBER, offsetof(struct fault_script, silent)},
    {"mute", NUMBER, offsetof(struct fault_script, mute)},
    {"stuck", NUMBER, offsetof(struct fault_script, stuck)},
    {"clock_us", TIME, offsetof(struct fault_script, clock_us)},
};

enum { ITEMS = sizeof items / sizeof items[0] };

static bool share_parse(const char *text, bool below, double *share_p)
{
    char *end;
    double share;
    if ((*text < '0' || *text > '9') && *text != '.')
        return false;
    share = strtod(text, &end);
    if (*end || !(share >= 0 && share <= 1) || (below && share == 1))
        return false;
    *share_p = share;
    return true;
}

static const struct item *item_find(const char *name, size_t bytes)
{
    for (int i = 0; i < ITEMS; i++)
        if (strlen(items[i].name) == bytes && memcmp(items[i].name, name, bytes) == 0)
            return &items[i];
    return NULL;
}

static bool script_item_parse(const struct item *item, const char *value,
                              struct fault_script *script)
{
    void *place = (char *)script + item->at;
    switch (item->type) {
    case NUMBER: return number_parse(value, UINT64_MAX, place);
    case TIME: return number_parse(value, TIME_MAX, place);
    default: return share_parse(value, item->type == SHARE_BELOW, place);
    }
}

static tryst_status refuse_name(const char *name, size_t bytes, size_t at, char *why)
{
    (void)snprintf(why, TRANSPORT_TEXT_MAX, "character %zu: \"%.*s\" is not one of ", at,
                   (int)(bytes < 24 ? bytes : 24), name);
    for (int i = 0; i < ITEMS; i++)
        (void)text_append(why, TRANSPORT_TEXT_MAX, "%s%s", i ? ", " : "", items[i].name);
    return TRYST_E_CONFIG;
}

static tryst_status refuse_value(const struct item *item, const char *value, size_t bytes,
                                 size_t at, char *why)
{
    (void)snprintf(why, TRANSPORT_TEXT_MAX, "character %zu: %s takes %s, not \"%.*s\"",
                   at, item->name, wants[item->type], (int)(bytes < 24 ? bytes : 24),
                   value);
    return TRYST_E_CONFIG;
}

/* Parse one item, name=value: `bytes` of text from character `at` on. */
static tryst_status item_parse(const char *text, size_t bytes, size_t at,
                               struct fault_script *script, char *why)
{
    char copy[64];
    const char *value = memchr(text, '=', bytes);
    size_t name_bytes = value ? (size_t)(value - text) : bytes;
    const struct item *item = item_find(text, name_bytes);
    if (!item)
        return refuse_name(text, name_bytes, at, why);
    value = text + name_bytes + (value != NULL);
    size_t value_bytes = bytes - (size_t)(value - text);
    (void)snprintf(copy, sizeof copy, "%.*s", (int)value_bytes, value);
    if (value_bytes >= sizeof copy || !script_item_parse(item, copy, script))
        return refuse_value(item, value, value_bytes, at + (size_t)(value - text), why);
    if (item->at == offsetof(struct fault_script, rank))
        script->one_rank = true;
    return TRYST_OK;
}

tryst_status fault_script_parse(const char *text, struct fault_script *script_p,
                                char *why)
{
    struct fault_script script = {.seed = 1};
    for (const char *at = text; *at;) {
        size_t bytes = strcspn(at, ",");
        tryst_status status =
            item_parse(at, bytes, (size_t)(at - text) + 1, &script, why);
        if (status != TRYST_OK)
            return status;
        at += bytes;
        at += *at == ',';
    }
    *script_p = script;
    return TRYST_OK;
}
