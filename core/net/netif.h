/* SPDX-License-Identifier: Apache-2.0 */
/* The machine's network interfaces, read from the kernel over netlink.
 *
 * One idea: a list of (interface, address) pairs is read once; everything else is a pure
 * function over such lists (netif_choose.h: the interfaces that TRYST_NET names).
 * Invariant: a list never changes; every entry has an IPv4 or IPv6 address with port
 * 0. */
#ifndef TRYST_CORE_NET_NETIF_H
#define TRYST_CORE_NET_NETIF_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "core/text/err.h"

#define NETIF_NAME_BYTES 16 /* IFNAMSIZ, including the NUL */
#define NETIF_TEXT_BYTES 64 /* room for netif_address_text */
#define NETIF_NO_DEFAULT UINT32_MAX

/** One address of one interface; an interface with three addresses has three entries. */
struct netif {
    char name[NETIF_NAME_BYTES];
    /** The kernel's number of the interface, valid in this network namespace. */
    uint32_t index;
    /** Place in the kernel's list: of an interface's addresses of one family, the first
     *  is the one that other programs use. */
    uint32_t order;
    int family;                      /**< AF_INET or AF_INET6 */
    struct sockaddr_storage address; /**< port 0; a link-local address has its scope id */
    uint32_t prefix_bits;            /**< length of the network's prefix: 24 for a /24 */
    uint32_t mtu;                    /**< bytes */
    uint64_t speed_bits_per_s;       /**< from the driver; 0: unknown */
    uint32_t default_metric;         /**< of the default route; NETIF_NO_DEFAULT: none */
    bool up;                         /**< administratively up, with a carrier */
    bool loopback;                   /**< the loopback interface, with any address */
    bool tunnel;                     /**< a point-to-point interface: VPN, PPP */
};

struct netif_list {
    size_t count;
    struct netif items[];
};

/** Read all interfaces that have an address, ordered by index, IPv4 before IPv6, then as
 *  the kernel lists them. Blocks
 *  for a few system calls, and up to 2 s for each answer of the kernel. The caller closes
 *  `*list_p` by netif_list_close.
 *  Returns TRYST_OK (the list may be empty), TRYST_E_SYSTEM or TRYST_E_NOMEM. */
tryst_status netif_list_open(struct err *err, struct netif_list **list_p);

/** Free a list; NULL is allowed. */
void netif_list_close(struct netif_list *list);

/** True if `address` is inside `block`/`prefix_bits`, which has the same family. */
bool netif_prefix_holds(const struct sockaddr *block, uint32_t prefix_bits,
                        const struct sockaddr *address);

/** True if hosts of the internet may reach the address: an IPv4 or IPv6 address outside
 *  the blocks of private, shared (carrier's NAT), link-local and loopback addresses. */
bool netif_address_is_public(const struct sockaddr *address);

/** Write "10.0.0.7" or "fe80::1%eth0", without the port; return `text`. */
char *netif_address_text(const struct sockaddr *address, char text[NETIF_TEXT_BYTES]);

/** Return the size of the sockaddr for its family (for connect and bind); 0 for any other
 *  family. */
socklen_t netif_address_bytes(const struct sockaddr *address);

#endif
