/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets with deadlines for the bootstrap: addresses, listening, connecting, waiting.
 *
 * One idea: every wait is one function that takes deadline, clock and cancel flag.
 * Invariant: no descriptor here is ever blocking, and each is close-on-exec. */
#ifndef TRYST_RENDEZVOUS_BOOTSTRAP_SESSION_BOOTSTRAP_NET_H
#define TRYST_RENDEZVOUS_BOOTSTRAP_SESSION_BOOTSTRAP_NET_H

#include <netdb.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "bootstrap_name.h"
#include "core/log/log.h"
#include "core/net/port_range.h"
#include "core/os/clock.h"
#include "core/text/err.h"
#include "rendezvous/bootstrap/session/bootstrap.h"

#define BOOTSTRAP_LISTENERS_MAX   16
#define BOOTSTRAP_PEER_TEXT_BYTES 80 /* "[v6%scope]:port" */
/** A rank that has waited this long for others logs once what it waits for. */
#define BOOTSTRAP_WARN_NS (10 * NS_PER_S)

struct bootstrap_wait {
    const struct clock *clock;
    const atomic_bool *cancel; /**< may be NULL */
    uint64_t deadline_ns;
    uint64_t timeout_ns; /**< from the beginning to the deadline */
};

/** Wait until `events` (POLLIN, POLLOUT) or an error shows on `fd` (-1: only time
 *  passes). `until_ns` is an end before the deadline, UINT64_MAX none. TRYST_OK,
 *  TRYST_E_TIMEOUT (either end), TRYST_E_CANCELED, TRYST_E_SYSTEM. */
tryst_status bootstrap_wait_fd(const struct bootstrap_wait *wait, int fd, short events,
                               uint64_t until_ns);

/** Return the time at which a wait has lasted for BOOTSTRAP_WARN_NS. */
uint64_t bootstrap_warn_ns(const struct bootstrap_wait *wait);
/** True if that time has come. */
bool bootstrap_wait_is_long(const struct bootstrap_wait *wait);
/** Log that a wait is long, with its reason and its time-out. */
void bootstrap_wait_warn(const struct bootstrap_wait *wait, const struct log *log,
                         const char *why);

/** Return the port that an address ends with; 0: none. NULL is allowed. */
uint16_t bootstrap_address_port(const char *address);

/** Make one attempt to connect, at most until `until_ns`. Returns the socket; -1 with an
 *  errno in *error_p: the attempt failed. */
int bootstrap_connect(const struct bootstrap_wait *wait, const struct addrinfo *to,
                      uint64_t until_ns, int *error_p);

struct bootstrap_listeners {
    int fds[BOOTSTRAP_LISTENERS_MAX];
    size_t count;
    struct bootstrap_name name; /**< zero: an inherited listener */
    const char *net;            /**< TRYST_NET's text; NULL: none */
};
/** Listen for rank 0 at `params->address`; `params->bind_interface` stays in use until
 *  the listeners are closed. If that belongs to this machine, listen there.
 *  For a host name that means loopback here (Debian's 127.0.1.1), listen also on the
 *  interfaces that TRYST_NET or the default chooses, which other machines reach. An
 *  address of another machine (forwarded) needs `params->bind_interface`. Never a
 *  wildcard. A port in use is tried again for a moment; a name that has no address of
 *  this machine so far is resolved again until the deadline. TRYST_E_BOOTSTRAP,
 *  TRYST_E_CONFIG, TRYST_E_CANCELED, TRYST_E_SYSTEM, TRYST_E_NOMEM. */
tryst_status bootstrap_listen(const struct bootstrap_params *params,
                              const struct bootstrap_wait *wait, struct err *err,
                              struct bootstrap_listeners *listeners_p);
/** Listen also at what is new since: another address of the name, or another chosen
 *  interface. Returns at once. */
void bootstrap_listeners_renew(struct bootstrap_listeners *listeners,
                               const struct bootstrap_wait *wait);
void bootstrap_listeners_close(struct bootstrap_listeners *listeners);

/** Listen for rank 0 where the ranks get the address later: at loopback, or at the
 *  interface that TRYST_NET or the default route chooses; at a port of `ports` (none
 *  given: any). `address_p` gets "host:port". TRYST_E_BOOTSTRAP, TRYST_E_CONFIG,
 *  TRYST_E_SYSTEM, TRYST_E_NOMEM. */
tryst_status bootstrap_listen_here(bool loopback, const char *net,
                                   struct port_range ports, struct err *err, int *fd_p,
                                   char address_p[BOOTSTRAP_ADDRESS_MAX]);

/** True if `fd` is a listening TCP socket with the port of `address` (NULL: any port),
 *  and was made non-blocking and close-on-exec. */
bool bootstrap_listener_adopt(int fd, const char *address);

/** Write the address of the other end, as "10.0.0.7:4711"; return `text`. */
char *bootstrap_peer_text(const struct sockaddr_storage *peer,
                          char text[BOOTSTRAP_PEER_TEXT_BYTES]);

#endif
