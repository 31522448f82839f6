/* SPDX-License-Identifier: Apache-2.0 */
/* Names and sentences of statuses, from the one list in tryst/status.h. Called by anyone.
 */
#include "tryst/tryst.h"

const char *tryst_status_name(tryst_status status)
{
    switch (status) {
#define STATUS_NAME(name, value, text) \
    case name: return #name;
        TRYST_STATUS_MAP(STATUS_NAME)
#undef STATUS_NAME
    default: return "TRYST_E_UNKNOWN";
    }
}

const char *tryst_status_str(tryst_status status)
{
    switch (status) {
#define STATUS_TEXT(name, value, text) \
    case name: return text;
        TRYST_STATUS_MAP(STATUS_TEXT)
#undef STATUS_TEXT
    default: return "unknown status";
    }
}

int tryst_status_visit(int (*fn)(void *arg, tryst_status status, const char *name,
                                 const char *text),
                       void *arg)
{
    static const struct {
        tryst_status status;
        const char *name, *text;
    } statuses[] = {
#define STATUS_ROW(name, value, text) {name, #name, text},
        TRYST_STATUS_MAP(STATUS_ROW)
#undef STATUS_ROW
    };
    int stop = 0;
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0] && !stop; i++)
        stop = fn(arg, statuses[i].status, statuses[i].name, statuses[i].text);
    return stop;
}
