/* SPDX-License-Identifier: Apache-2.0 */
/* Ports that a firewall lets through: TRYST_PORT_RANGE, "30000-30099" or one port.
 *
 * Callers: commsched (reads the setting), transports (whoever binds a listening socket). */
#ifndef TRYST_TOPOLOGY_PORT_RANGE_H
#define TRYST_TOPOLOGY_PORT_RANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/text/err.h"

/* Both 0: the kernel chooses. */
struct port_range {
    uint16_t first, last;
};

/* A port at `*text_p`, 1 … 65535, which then stands behind it; false: there is none. */
bool port_read(const char **text_p, uint16_t *port_p);

/* "" is any port. TRYST_E_CONFIG with a sentence when `text` is no range of 1 … 65535. */
tryst_status port_range_parse(const char *text, struct err *err,
                              struct port_range *range_p);

/* How many ports there are; 0 when the kernel chooses. */
static inline uint32_t port_range_count(struct port_range range)
{
    return range.first ? (uint32_t)range.last - range.first + 1 : 0;
}

#endif
