/* SPDX-License-Identifier: Apache-2.0 */
/* The machine's network interfaces, as the kernel tells them by netlink.
 *
 * One idea: a list of (interface, address) pairs is read once, everything else is a pure
 * function over such lists (netif_choose.h: which ones the user asked for).
 * Invariant: a list never changes after it was made; every entry has an IPv4 or IPv6
 * address with port 0.
 * Callers: transports (rails), bootstrap (where to listen), tryst-info. */
#ifndef TRYST_TOPOLOGY_NETIF_H
#define TRYST_TOPOLOGY_NETIF_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "core/text/err.h"

#define NETIF_NAME_BYTES 16 /* IFNAMSIZ, with its terminator */
#define NETIF_TEXT_BYTES 64 /* what netif_address_text may need */
#define NETIF_NO_DEFAULT UINT32_MAX

/* One address of one interface; an interface with three addresses is three of these. */
struct netif {
    char name[NETIF_NAME_BYTES];
    uint32_t index;                  /* the kernel's, of this machine and namespace */
    int family;                      /* AF_INET or AF_INET6 */
    struct sockaddr_storage address; /* port 0; scope id set where link-local */
    uint32_t prefix_bits;            /* 24 for a /24 */
    uint32_t mtu;                    /* bytes */
    uint64_t speed_bits_per_s;       /* as the driver says, 0 unknown */
    uint32_t default_metric;         /* of its default route, else NETIF_NO_DEFAULT */
    bool up;                         /* administratively up and with a carrier */
    bool loopback;
};

struct netif_list {
    size_t count;
    struct netif items[];
};

/* Reads all interfaces that have an address, ordered by index, IPv4 before IPv6.
 * Blocks: for a few system calls; an answer that the kernel owes us is awaited for 2 s.
 * Returns TRYST_OK (possibly with count 0), TRYST_E_SYSTEM or TRYST_E_NOMEM. `*list_p` is
 * the caller's, for netif_list_close. */
tryst_status netif_list_open(struct err *err, struct netif_list **list_p);

/* NULL is allowed. */
void netif_list_close(struct netif_list *list);

/* Is `address` inside `block`/`prefix_bits`? False for different families. */
bool netif_prefix_holds(const struct sockaddr *block, uint32_t prefix_bits,
                        const struct sockaddr *address);

/* "10.0.0.7", "fe80::1%eth0"-like text without the port; returns `text`. */
char *netif_address_text(const struct sockaddr *address, char text[NETIF_TEXT_BYTES]);

/* Bytes of the sockaddr for its family (for connect and bind); 0 for any other family. */
socklen_t netif_address_bytes(const struct sockaddr *address);

#endif
