/* SPDX-License-Identifier: Apache-2.0 */
/* Build a list of interfaces from netlink messages.
 *
 * One idea: links, addresses and default routes come in separate dumps; each message adds
 * to a table, and the list is built after the last.
 * Invariant: only the messages decide the list (except speeds, which netlink lacks), so
 * captured bytes are a test.
 * Private to core/net/. */
#ifndef TRYST_CORE_NET_NETIF_SCAN_H
#define TRYST_CORE_NET_NETIF_SCAN_H

#include "netif.h"
#include "netlink.h"

struct netif_link {
    uint32_t index, mtu;
    uint64_t speed_bits_per_s;
    /** Metrics of the default IPv4 and IPv6 routes; NETIF_NO_DEFAULT: none. */
    uint32_t metric4, metric6;
    bool up, loopback, tunnel;
    char name[NETIF_NAME_BYTES];
};

/** The tables; initially zeroed. */
struct netif_scan {
    struct netif_link *links;
    size_t links_count, links_capacity;
    struct netif *items;
    size_t items_count, items_capacity;
};

/** Add one message to the struct netif_scan `scan`: RTM_NEWLINK, RTM_NEWADDR,
 *  RTM_NEWROUTE; other and malformed messages are ignored. A netlink_fn.
 *  Returns TRYST_OK or TRYST_E_NOMEM. */
tryst_status netif_scan_message(void *scan, const struct nlmsghdr *message);

/** Build the list. An address without a link in the table is left out.
 *  Returns TRYST_OK or TRYST_E_NOMEM. */
tryst_status netif_scan_list(struct netif_scan *scan, struct netif_list **list_p);

void netif_scan_wipe(struct netif_scan *scan);

#endif
