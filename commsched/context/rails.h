/* SPDX-License-Identifier: Apache-2.0 */
/** @file rails.h
 *  The rails of a context: one worker of a transport for each interface, opened when the first peer
 *  needs that transport.
 */
#ifndef COMMSCHED_CONTEXT_RAILS_H
#define COMMSCHED_CONTEXT_RAILS_H

#include "core/text/err.h"
#include "transports/link/link_listen.h"
#include "transports/select.h"
#include "tryst/tryst.h"

/** Interfaces that a transport opens rails on. */
enum { RAILS_MAX = 8 };

struct rails_start;

struct rails {
    /** Chosen by TRYST_NET or by default, one address each: the rails of every network transport, in the
     *  order in which they are announced. NULL: no group yet. */
    struct netif_list *interfaces;
    struct rail *all[TRANSPORT_KINDS * RAILS_MAX];
    uint32_t count;
    struct rails_start *starts[TRANSPORT_KINDS]; /**< NULL: closed */
    /** Indices of each kind's rails: reserved at its first start, which may end after another's. */
    uint32_t first[TRANSPORT_KINDS], reserved[TRANSPORT_KINDS];
    uint32_t reserved_count;
};

/** Choose the interfaces, if that has not been done: those that TRYST_NET allows, or all that lead out
 *  of this machine. */
tryst_status rails_choose(tryst_ctx *ctx, struct err *err);
/** Where links listen: at every rail's interface; announced is the one of the default route, else the
 *  first. */
void rails_link_addresses(const tryst_ctx *ctx, struct link_tcp *tcp);
/** The rails that the others may connect to. */
void rails_announce(const tryst_ctx *ctx, struct host_identity *identity);
/** Transports that this process could use, a bit for each kind; loads no module. */
uint32_t rails_available(tryst_ctx *ctx);

/** rendezvous needs transport `kind` (rendezvous_params.rails_open). */
tryst_status rails_open(void *owner, int kind, char *text);
/** The endpoints are gone: wait for starts that are under way, TRYST_PEER_TIMEOUT at most, and leave to their
 *  threads those that go on. With the lock. */
void rails_settle(tryst_ctx *ctx);
void rails_close(tryst_ctx *ctx);
/** In a forked child: give back the descriptors that the rails hold. */
void rails_forked(const tryst_ctx *ctx);

#endif
