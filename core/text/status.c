/* SPDX-License-Identifier: Apache-2.0 */
/* Names and sentences of statuses, from the one list in tryst/status.h. */
#include "core/text/status.h"
#include "tryst/tryst.h"

static const struct row {
    tryst_status status;
    const char *name, *text;
} rows[] = {
#define STATUS_ROW(name, value, text) {name, #name, text},
    TRYST_STATUS_MAP(STATUS_ROW)
#undef STATUS_ROW
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static struct row row_of(tryst_status status)
{
    for (size_t i = 0; i < ROWS; i++)
        if (rows[i].status == status)
            return rows[i];
    return (struct row){status, "TRYST_E_UNKNOWN", "unknown status"};
}

bool status_is_outcome(tryst_status status)
{
    if (status == TRYST_E_TIMEOUT || status == TRYST_E_FORKED)
        return false;
    for (size_t i = 0; i < ROWS; i++)
        if (rows[i].status == status)
            return status >= 100;
    return false;
}

const char *tryst_status_name(tryst_status status)
{
    return row_of(status).name;
}

const char *tryst_status_str(tryst_status status)
{
    return row_of(status).text;
}

int tryst_status_visit(int (*fn)(void *arg, tryst_status status, const char *name,
                                 const char *text),
                       void *arg)
{
    int stop = 0;
    for (size_t i = 0; i < ROWS && !stop; i++)
        stop = fn(arg, rows[i].status, rows[i].name, rows[i].text);
    return stop;
}
