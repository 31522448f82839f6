/* SPDX-License-Identifier: Apache-2.0 */
/* TRYST_PORT_RANGE: the ports that a firewall lets through, "30000-30099" or one port. */
#ifndef TRYST_CORE_NET_PORT_RANGE_H
#define TRYST_CORE_NET_PORT_RANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/text/err.h"

/** first and last 0: the kernel chooses */
struct port_range {
    uint16_t first, last;
};

/** Read a port from 1 to 65535 at `*text_p`, and move `*text_p` behind its digits.
 *  Returns false if the digits are missing or out of range. */
bool port_read(const char **text_p, uint16_t *port_p);

/** Parse a range from 1 to 65535; "" is any port. TRYST_E_CONFIG with a message for any
 *  other text. */
tryst_status port_range_parse(const char *text, struct err *err,
                              struct port_range *range_p);

/** Return the number of ports; 0 where the kernel chooses. */
static inline uint32_t port_range_count(struct port_range range)
{
    return range.first ? (uint32_t)range.last - range.first + 1 : 0;
}

#endif
