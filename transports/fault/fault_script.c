/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fault scripts as text (fault.h).
 */
#include "transports/fault.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALLOWED "seed, again, drop_every, drop_after, kill, silent, stuck"

static bool number_parse(const char *text, uint64_t *number_p)
{
    char *end;
    unsigned long long number;
    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    number = strtoull(text, &end, 10);
    if (errno || *end)
        return false;
    *number_p = number;
    return true;
}

/* 0 to just below 1: a transport that always says AGAIN would never do anything. */
static bool share_parse(const char *text, double *share_p)
{
    char *end;
    double share;
    if ((*text < '0' || *text > '9') && *text != '.')
        return false;
    share = strtod(text, &end);
    if (*end || !(share >= 0 && share < 1))
        return false;
    *share_p = share;
    return true;
}

static bool item_take(const char *name, const char *value, struct fault_script *script)
{
    if (strcmp(name, "again") == 0)
        return share_parse(value, &script->again);
    if (strcmp(name, "seed") == 0)
        return number_parse(value, &script->seed);
    if (strcmp(name, "drop_every") == 0)
        return number_parse(value, &script->drop_every);
    if (strcmp(name, "drop_after") == 0)
        return number_parse(value, &script->drop_after);
    if (strcmp(name, "kill") == 0)
        return number_parse(value, &script->kill);
    if (strcmp(name, "silent") == 0)
        return number_parse(value, &script->silent);
    if (strcmp(name, "stuck") == 0)
        return number_parse(value, &script->stuck);
    return false;
}

tryst_status fault_script_parse(const char *text, struct fault_script *script_p,
                                char *why)
{
    struct fault_script script = {.seed = 1};
    while (*text) {
        char item[64];
        size_t bytes = strcspn(text, ",");
        char *value;
        (void)snprintf(item, sizeof item, "%.*s", (int)bytes, text);
        value = strchr(item, '=');
        if (value)
            *value++ = '\0';
        if (bytes >= sizeof item || !value || !item_take(item, value, &script)) {
            (void)snprintf(why, TRANSPORT_TEXT_MAX,
                           "\"%.*s\" is not one of " ALLOWED
                           " =number (again: 0 to below 1)",
                           (int)(bytes < 40 ? bytes : 40), text);
            return TRYST_E_CONFIG;
        }
        text += bytes;
        if (*text == ',')
            text++;
    }
    *script_p = script;
    return TRYST_OK;
}
