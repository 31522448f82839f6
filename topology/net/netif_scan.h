/* SPDX-License-Identifier: Apache-2.0 */
/* From netlink messages to a list of interfaces.
 *
 * One idea: links, addresses and default routes come in separate dumps; each message is
 * noted in one table, and the list is made when all have been seen.
 * Invariant: nothing but the messages decides the list (speeds apart, which netlink does not
 * tell), so captured bytes are a test.
 * Callers: netif.c. Private to topology/net/. */
#ifndef TRYST_TOPOLOGY_NETIF_SCAN_H
#define TRYST_TOPOLOGY_NETIF_SCAN_H

#include "netif.h"
#include "netlink.h"

struct netif_link {
    uint32_t index, mtu;
    uint64_t speed_bits_per_s;
    uint32_t metric4, metric6; /* of its default routes, else NETIF_NO_DEFAULT */
    bool up, loopback;
    char name[NETIF_NAME_BYTES];
};

/* Zero it first. */
struct netif_scan {
    struct netif_link *links;
    size_t links_count, links_capacity;
    struct netif *items;
    size_t items_count, items_capacity;
};

/* A netlink_fn over a struct netif_scan: RTM_NEWLINK, RTM_NEWADDR, RTM_NEWROUTE; others are
 * passed over, malformed ones too. TRYST_E_NOMEM. */
tryst_status netif_scan_message(void *scan, const struct nlmsghdr *message);

/* The list of what was seen. An address whose link was not seen is left out. */
tryst_status netif_scan_list(struct netif_scan *scan, struct netif_list **list_p);

void netif_scan_wipe(struct netif_scan *scan);

#endif
