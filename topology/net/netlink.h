/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to the kernel over an rtnetlink socket.
 *
 * One idea: one request, its answers handed to a function as they come, a deadline on each.
 * Invariant: only messages of the kernel with our sequence number reach the function.
 * Callers: netif.c, netif_scan.c. Private to topology/net/. */
#ifndef TRYST_TOPOLOGY_NETLINK_H
#define TRYST_TOPOLOGY_NETLINK_H

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/text/err.h"

/* One answer; a status other than TRYST_OK ends the exchange with it. */
typedef tryst_status (*netlink_fn)(void *arg, const struct nlmsghdr *message);

struct netlink {
    int fd;
    uint32_t sequence;
    void *buffer;
};

/* Room for any batch that the kernel puts into one datagram (it uses at most 32 KiB). */
#define NETLINK_BUFFER_BYTES 32768

/* What a batch of messages ended with. */
enum netlink_end {
    NETLINK_MORE,        /* further datagrams follow */
    NETLINK_DONE,        /* complete */
    NETLINK_INTERRUPTED, /* the tables changed meanwhile: ask again */
    NETLINK_ERROR        /* the kernel refused: *error_p has the errno */
};

tryst_status netlink_open(struct err *err, struct netlink *netlink_p);
void netlink_close(struct netlink *netlink);

/* Sends `request` (its header is completed here) and hands every answer to `fn`. An errno of
 * the kernel's refusal comes in `*error_p` with TRYST_E_SYSTEM; NETLINK_INTERRUPTED sets it
 * to EINTR. `err` is set unless `*error_p` is. */
tryst_status netlink_ask(struct netlink *netlink, struct nlmsghdr *request, netlink_fn fn,
                         void *arg, struct err *err, int *error_p);

/* Walks one datagram; pure, for tests with captured bytes. `*status_p` is fn's. */
enum netlink_end netlink_walk(const void *data, size_t bytes, uint32_t sequence,
                              netlink_fn fn, void *arg, tryst_status *status_p,
                              int *error_p);

/* The payload behind a message's fixed part as attributes: calls `fn` for each. False when
 * the fixed part or an attribute does not fit. */
bool netlink_attributes(const struct nlmsghdr *message, size_t fixed_bytes,
                        void (*fn)(void *arg, const struct rtattr *attribute), void *arg);

/* Copies an attribute of exactly `bytes`; false for any other size. */
bool netlink_copy(const struct rtattr *attribute, void *value_p, size_t bytes);

#endif
