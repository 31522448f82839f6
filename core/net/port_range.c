/* SPDX-License-Identifier: Apache-2.0 */
/* Parse TRYST_PORT_RANGE; see port_range.h. */
#include "port_range.h"

#include "core/text/number.h"

bool port_read(const char **text_p, uint16_t *port_p)
{
    const char *begin = *text_p;
    uint64_t port;
    if (!number_read(text_p, &port) || *text_p - begin > 5 || port == 0 ||
        port > UINT16_MAX)
        return false;
    *port_p = (uint16_t)port;
    return true;
}

tryst_status port_range_parse(const char *text, struct err *err,
                              struct port_range *range_p)
{
    struct port_range range = {0, 0};
    const char *rest = text;
    bool good = text[0] == '\0' || port_read(&rest, &range.first);
    range.last = range.first;
    if (good && range.first && rest[0] == '-') {
        rest++;
        good = port_read(&rest, &range.last);
    }
    if (!good || rest[0] != '\0' || range.last < range.first)
        return err_set(
            err, TRYST_E_CONFIG,
            "TRYST_PORT_RANGE='%.40s' is not a range of ports (1 to 65535); write "
            "first-last, for example 30000-30099",
            text);
    *range_p = range;
    return TRYST_OK;
}
