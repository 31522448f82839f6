/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to the kernel over an rtnetlink socket.
 *
 * One idea: one request; its answers are passed to a function as they arrive, with a
 * deadline for each.
 * Invariant: only the kernel's messages with the request's sequence number reach the
 * function.
 * Private to core/net/. */
#ifndef TRYST_CORE_NET_NETLINK_H
#define TRYST_CORE_NET_NETLINK_H

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/text/err.h"

/** Handle one answer; a status other than TRYST_OK ends the exchange with that
 *  status. */
typedef tryst_status (*netlink_fn)(void *arg, const struct nlmsghdr *message);

struct netlink {
    int fd;
    uint32_t sequence;
    void *buffer;
};

/** Room for any batch that the kernel sends in one datagram (at most 32 KiB). */
#define NETLINK_BUFFER_BYTES 32768

/** The state after a datagram. */
enum netlink_end {
    NETLINK_MORE,        /**< further datagrams follow */
    NETLINK_DONE,        /**< the answer is complete, or fn failed */
    NETLINK_INTERRUPTED, /**< the tables changed during the dump: repeat the request */
    NETLINK_ERROR        /**< the kernel returned an error: *error_p is the errno */
};

tryst_status netlink_open(struct err *err, struct netlink *netlink_p);
void netlink_close(struct netlink *netlink);

/** Complete the header of `request`, send it, and pass every answer to `fn`.
 *  TRYST_E_SYSTEM with `*error_p`: the kernel's errno, or EINTR for NETLINK_INTERRUPTED;
 *  `err` is not set.
 *  TRYST_E_SYSTEM with `*error_p` 0: sending or receiving failed; `err` is set. Else fn's
 *  status. */
tryst_status netlink_request(struct netlink *netlink, struct nlmsghdr *request,
                             netlink_fn fn, void *arg, struct err *err, int *error_p);

/** Pass the messages of one datagram to `fn`; pure, so captured bytes are a test.
 *  `*status_p` is fn's status. */
enum netlink_end netlink_walk(const void *data, size_t bytes, uint32_t sequence,
                              netlink_fn fn, void *arg, tryst_status *status_p,
                              int *error_p);

/** Call `fn` for each attribute after a message's fixed part. Returns false if the fixed
 *  part or an attribute is truncated, perhaps after some calls. */
bool netlink_attributes(const struct nlmsghdr *message, size_t fixed_bytes,
                        void (*fn)(void *arg, const struct rtattr *attribute), void *arg);

/** Copy an attribute of exactly `bytes` bytes. Returns false, and copies nothing, for any
 *  other size. */
bool netlink_copy(const struct rtattr *attribute, void *value_p, size_t bytes);

#endif
