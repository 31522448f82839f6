/* SPDX-License-Identifier: Apache-2.0 */
/** @file reach.h
 *  The ways in which a rank's listener can be dialled from here (reach.c).
 */
#ifndef TRYST_TRANSPORTS_REACH_H
#define TRYST_TRANSPORTS_REACH_H

#include "transports/link/link_listen.h"
#include "transports/select.h"

/** Scopes of the link-local addresses at which this rank listens. */
struct reach_scopes {
    uint32_t ids[LINK_TCP_MAX];
    uint32_t count;
};

struct reach_scopes reach_scopes_of(const struct link_tcp *tcp);

/** One way to dial a rank. */
struct reach_way {
    struct link_address address; /**< of the peer's listener */
    /** The socket is bound to the address of this rail here; -1: the kernel's route
     *  chooses. */
    int32_t rail;
};

/** Get way number `attempt` (from 0) to the rank `theirs` from the rank `mine`, best
 *  first. `turn` spreads pairs of ranks over equally good rails. Addresses that both
 *  hosts have are left out, and loopback between two hosts. False: the list is shorter;
 *  for attempt 0 `*why_p` is the reason. */
bool reach_way(const struct host_identity *mine, const struct host_identity *theirs,
               uint32_t turn, const struct reach_scopes *scopes, uint32_t attempt,
               struct reach_way *way_p, const char **why_p);

/** Get the rail here on which a link arrived or left, by its socket's local address; for
 *  an address without a rail, the first rail of the family. */
uint32_t reach_rail(const struct host_identity *mine, const struct link_address *local);
/** Get the rail here for a rank of the same host: the first of a family that both
 *  have. */
uint32_t reach_rail_near(const struct host_identity *mine,
                         const struct host_identity *theirs);

#endif
