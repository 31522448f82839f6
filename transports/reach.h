/* SPDX-License-Identifier: Apache-2.0 */
/** @file reach.h
 *  The addresses at which a rank's listener can be dialled from here (reach.c).
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

/** Get address number `attempt` (from 0) of the rank `theirs`, as the rank `mine` dials
 *  it. `turn` spreads pairs of ranks over rails (select_rails). A loopback address of
 *  another host has no number. False: there is no address of this number; for attempt 0
 *  `*why_p` is the reason. */
bool reach_address(const struct host_identity *mine, const struct host_identity *theirs,
                   uint32_t turn, const struct reach_scopes *scopes, uint32_t attempt,
                   struct link_address *address_p, const char **why_p);

#endif
