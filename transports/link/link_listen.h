/* SPDX-License-Identifier: Apache-2.0 */
/** @file link_listen.h
 *  The sockets to which other ranks connect their links.
 *
 *  Domain: progress domain; `accepted` is called from inside a poller function.
 */
#ifndef TRYST_TRANSPORTS_LINK_LINK_LISTEN_H
#define TRYST_TRANSPORTS_LINK_LINK_LISTEN_H

#include <stdint.h>
#include <sys/socket.h>

#include "core/net/port_range.h"
#include "transports/link/link.h"

struct link_listener;

/** Most addresses at which a TCP listener accepts connections. */
#define LINK_TCP_MAX 16u
struct link_tcp {
    struct sockaddr_storage addresses[LINK_TCP_MAX]; /**< the first is announced */
    unsigned count;
    struct port_range ports; /**< the port is one of these */
    uint16_t avoid; /**< port of the range that another listener needs; 0: none */
};

/** Listen on an abstract Unix socket, and on TCP if `tcp` is not NULL: at all its
 *  addresses on one port, so a peer may replace the IP address in `*address_p` by any of
 *  them. `accepted` is called with a link that has no events yet; the callee sets them by
 *  link_events_set. At most `pending_max` connections wait for their first message, each
 *  for 5 s at most; the oldest is dropped first. TRYST_OK, TRYST_E_NOMEM, TRYST_E_SYSTEM
 *  (errno; EADDRINUSE: no port of the range is free). */
tryst_status link_listen(struct poller *poller, const struct log *log,
                         const struct link_tcp *tcp, unsigned pending_max,
                         void (*accepted)(void *arg, struct link *link), void *arg,
                         struct link_listener **listener_p,
                         struct link_address *address_p);

/** Stop listening; accepted links stay unchanged. NULL is allowed. */
void link_listener_close(struct link_listener *listener);

/** Drop connections that have sent nothing for 5 s at `now_ns` (CLOCK_MONOTONIC). The
 *  caller must have run the poller just before, so that a message that arrived during a
 *  long gap between passes has been read. For a dropped connection events->closed follows
 *  from the poller. */
void link_listener_tick(struct link_listener *listener, uint64_t now_ns);

struct link_listener_counters {
    uint64_t accepted;
    uint64_t foreign; /**< Unix connections of another user, refused */
    uint64_t silent;  /**< dropped before their first message */
    uint64_t failed;  /**< refused for want of memory or descriptors */
};
struct link_listener_counters link_listener_counters(
    const struct link_listener *listener);

/** In a forked child: close the descriptors and touch nothing else, as link_forked
 *  does. */
void link_listener_forked(struct link_listener *listener);

#endif
