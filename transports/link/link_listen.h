/* SPDX-License-Identifier: Apache-2.0 */
/** @file link_listen.h
 *  Where other ranks connect their links to.
 *
 *  Domain: progress domain; `accepted` comes from inside a poller function.
 */
#ifndef TRANSPORTS_LINK_LISTEN_H
#define TRANSPORTS_LINK_LISTEN_H

#include <stdint.h>
#include <sys/socket.h>

#include "topology/net/port_range.h"
#include "transports/link/link.h"

struct link_listener;

/** Interface addresses at which one host's TCP listener is reached. */
#define LINK_TCP_MAX 8u
struct link_tcp {
    struct sockaddr_storage addresses[LINK_TCP_MAX]; /**< the first is announced */
    unsigned count;
    struct port_range ports; /**< the port is one of these */
    uint16_t avoid;          /**< a port of the range that somebody else needs; 0: none */
};

/** Listen: always on an abstract Unix socket; on TCP too if `tcp` is not NULL, at all of its
 *  addresses and everywhere on the same port, so a peer may put any of them into what
 *  `*address_p` says. `accepted` is called with a link that has no events yet; the callee
 *  sets them by link_events_set. Connections are bounded: at most `pending_max` that have
 *  not delivered their first message within 5 s; the oldest is dropped first.
 *  TRYST_OK, TRYST_E_NOMEM, TRYST_E_SYSTEM (errno; EADDRINUSE: no port of the range is
 *  free). */
tryst_status link_listen(struct poller *poller, const struct log *log,
                         const struct link_tcp *tcp, unsigned pending_max,
                         void (*accepted)(void *arg, struct link *link), void *arg,
                         struct link_listener **listener_p,
                         struct link_address *address_p);

/** Stop listening; links that were accepted stay as they are. NULL is allowed. */
void link_listener_close(struct link_listener *listener);

/** Drop connections that have not spoken within 5 s at `now_ns` (CLOCK_MONOTONIC). The caller has
 *  run the poller just before: what they have said is read, however long nobody looked. For those
 *  dropped, events->closed follows from the poller. */
void link_listener_tick(struct link_listener *listener, uint64_t now_ns);

struct link_listener_counters {
    uint64_t accepted;
    uint64_t foreign; /**< Unix connections of another user, refused */
    uint64_t silent;  /**< dropped before they spoke */
    uint64_t failed;  /**< refused for want of memory or descriptors */
};
struct link_listener_counters link_listener_counters(
    const struct link_listener *listener);

/** In a forked child, as link_forked. */
void link_listener_forked(struct link_listener *listener);

#endif
