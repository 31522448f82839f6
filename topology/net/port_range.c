/* SPDX-License-Identifier: Apache-2.0 */
/* Reads TRYST_PORT_RANGE: see port_range.h. */
#include "port_range.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* A port at `text`: digits alone, 1 … 65535; what follows it goes to *rest_p. */
static bool port_read(const char *text, uint16_t *port_p, const char **rest_p)
{
    size_t digits = strspn(text, "0123456789");
    unsigned long port = digits > 0 && digits <= 5 ? strtoul(text, NULL, 10) : 0;
    *port_p = (uint16_t)port;
    *rest_p = text + digits;
    return port > 0 && port <= UINT16_MAX;
}

tryst_status port_range_parse(const char *text, struct err *err,
                              struct port_range *range_p)
{
    struct port_range range = {0, 0};
    const char *rest = text;
    bool good = text[0] == '\0' || port_read(text, &range.first, &rest);
    range.last = range.first;
    if (good && rest[0] == '-')
        good = range.first && port_read(rest + 1, &range.last, &rest);
    if (!good || rest[0] != '\0' || range.last < range.first)
        return err_set(err, TRYST_E_CONFIG,
                       "TRYST_PORT_RANGE='%.40s' is no range of ports; write "
                       "first-last, for example 30000-30099",
                       text);
    *range_p = range;
    return TRYST_OK;
}
