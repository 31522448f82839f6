/* SPDX-License-Identifier: Apache-2.0 */
/* The machine's network interfaces and routes, as the kernel tells them by netlink.
 *
 * One idea: a list of (interface, address) pairs is read once, everything else is a pure
 * function over such lists: which ones the user asked for, and which pair of a local and a
 * remote one belongs together.
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

#include "core/err.h"

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

/* The entries that `wanted` names: "eth0,10.0.0.0/8,fd00::/8,192.168.1.7" (the syntax of
 * TRYST_NET: interface names, CIDR blocks, single addresses). NULL or "" chooses for the
 * user: all that are up, without loopback unless there is nothing else, without IPv6
 * link-local. A link-local address is chosen by its interface's name only where that has no
 * other, or by its own block. Order is the list's.
 * TRYST_E_CONFIG when an item is malformed or matches nothing that is up: the text names it
 * and lists what there is. TRYST_E_NOMEM. */
tryst_status netif_select(const struct netif_list *list, const char *wanted,
                          struct err *err, struct netif_list **selected_p);

/* The first entry of each interface: what a rail is made of. TRYST_OK or TRYST_E_NOMEM. */
tryst_status netif_first_each(const struct netif_list *list, struct err *err,
                              struct netif_list **firsts_p);

/* What the kernel would do with a packet. */
struct netroute {
    uint32_t index;                 /* interface that it leaves by */
    struct sockaddr_storage source; /* address it would carry, port 0 */
    bool local;                     /* the destination is this machine itself */
    bool gateway;                   /* through a router, not on the link */
};

/* Which way to `to` (AF_INET, AF_INET6)? Blocks as netif_list_open does.
 * Returns TRYST_OK, TRYST_E_UNREACHABLE (no route), TRYST_E_INVALID (family),
 * TRYST_E_SYSTEM. */
tryst_status netroute_find(const struct sockaddr *to, struct err *err,
                           struct netroute *route_p);

/* A source of routes; NULL where one is asked for means the kernel (netroute_find). */
struct netroute_table {
    tryst_status (*find)(void *arg, const struct sockaddr *to, struct netroute *route_p);
    void *arg;
};

/* A local and a remote interface address between which to connect. */
struct netif_pair {
    size_t local, remote; /* indexes into the two lists */
    bool subnet;          /* one subnet; else a route */
};

/* The best pair. One subnet is better than a route, then the larger smaller-speed of both
 * ends, then IPv4 before IPv6, then list order. Loopback pairs count only with `same_host`,
 * and then last. Of a remote entry only family, address, prefix_bits, speed_bits_per_s,
 * up and loopback are read. TRYST_E_UNREACHABLE when there is none. */
tryst_status netif_pair(const struct netif_list *local, const struct netif_list *remote,
                        bool same_host, const struct netroute_table *routes,
                        struct netif_pair *pair_p);

/* Is `address` inside `block`/`prefix_bits`? False for different families. */
bool netif_prefix_holds(const struct sockaddr *block, uint32_t prefix_bits,
                        const struct sockaddr *address);

/* "10.0.0.7", "fe80::1%eth0"-like text without the port; returns `text`. */
char *netif_address_text(const struct sockaddr *address, char text[NETIF_TEXT_BYTES]);

/* Bytes of the sockaddr for its family (for connect and bind); 0 for any other family. */
socklen_t netif_address_bytes(const struct sockaddr *address);

#endif
