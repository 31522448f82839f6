/* SPDX-License-Identifier: Apache-2.0 */
/* The address "host:port" of rank 0, resolved anew until the ranks have come together.
 *
 * One idea: a host name may be unknown yet, or have an old address, when a rank starts,
 * so resolving is a part of each attempt. getaddrinfo has the time limits of resolv.conf,
 * not the bootstrap's: a thread calls it, and a lookup that outlasts the bootstrap frees
 * its record by itself. A lookup may hang on a name service that was not reachable when
 * the lookup began, so another one begins after 3 s, then after twice as long each time.
 * Invariant: an answer stays until a later lookup has another one, so a name service that
 * fails or hangs delays no attempt at a known address. A numeric host takes no thread. */
#ifndef TRYST_RENDEZVOUS_BOOTSTRAP_SESSION_BOOTSTRAP_NAME_H
#define TRYST_RENDEZVOUS_BOOTSTRAP_SESSION_BOOTSTRAP_NAME_H

#include <netdb.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/text/err.h"

struct bootstrap_lookup;
struct bootstrap_wait;

struct bootstrap_name {
    char host[256];
    uint16_t port;
    bool is_numeric;
    struct addrinfo *found; /**< the last answer; NULL: none yet */
    char why[128]; /**< reason while `found` is NULL: "cannot resolve the host: …" */
    struct bootstrap_lookup *lookup; /**< runs in a thread; NULL: none runs */
    /** Start of the lookup, and the time after which another one begins. */
    uint64_t lookup_ns, patience_ns;
    uint64_t next_ns, pause_ns; /**< time of the next lookup, and the pause after it */
};

/** Parse an address. TRYST_E_CONFIG with a sentence: it is not "host:port". */
tryst_status bootstrap_name_open(const char *text, struct err *err,
                                 struct bootstrap_name *name_p);

/** Take the answer of a lookup that has ended, and start the next one if it is due. Block
 *  only before the first answer, at most until `until_ns`.
 *  TRYST_OK          `found` holds addresses
 *  TRYST_AGAIN       the host has no address so far: `why`
 *  TRYST_E_CANCELED  the wait was cancelled */
tryst_status bootstrap_name_poll(struct bootstrap_name *name,
                                 const struct bootstrap_wait *wait, uint64_t until_ns);

/** Free the answer, and leave a lookup that runs to its thread. */
void bootstrap_name_close(struct bootstrap_name *name);

#endif
