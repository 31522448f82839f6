/* SPDX-License-Identifier: Apache-2.0 */
/** @file rails.h
 *  The rails of a context: for each transport one worker per interface, opened when the
 *  first peer needs the transport.
 */
#ifndef TRYST_COMMSCHED_CONTEXT_RAILS_H
#define TRYST_COMMSCHED_CONTEXT_RAILS_H

#include "core/text/err.h"
#include "transports/link/link_listen.h"
#include "transports/select.h"
#include "tryst/tryst.h"

/** The most interfaces that a transport opens rails on. */
enum { RAILS_MAX = 8 };

struct rails_start;

struct rails {
    /** The interfaces chosen by TRYST_NET or by default, with one address each: the
     *  rails of every network transport, in the order of their announcement. NULL: no
     *  group yet. */
    struct netif_list *interfaces;
    struct rail *all[TRANSPORT_KINDS * RAILS_MAX];
    uint32_t count;
    struct rails_start *starts[TRANSPORT_KINDS]; /**< by kind; NULL: closed */
    /** The first rail index of each kind, and how many are reserved. Reserved at the
     *  kind's first start, since starts of two kinds may end in any order. */
    uint32_t first[TRANSPORT_KINDS], reserved[TRANSPORT_KINDS];
    uint32_t reserved_count; /**< the sum of `reserved` */
};

/** Choose the interfaces unless they are chosen: those that TRYST_NET allows, or all
 *  that lead out of this machine. */
tryst_status rails_choose(tryst_ctx *ctx, struct err *err);
/** List the addresses where links listen: one of each rail's interface. The first one
 *  is announced: that of the default route, else of the first interface. */
void rails_link_addresses(const tryst_ctx *ctx, struct link_tcp *tcp);
/** Fill in the rails that this rank announces to the group. */
void rails_announce(const tryst_ctx *ctx, struct host_identity *identity);
/** Return the transports that this process could use, a bit for each kind. Loads no
 *  module. */
uint32_t rails_available(tryst_ctx *ctx);

/** Open the rails of transport `kind` for rendezvous (rendezvous_params.rails_open).
 *  TRYST_OK; TRYST_IN_PROGRESS: a thread opens them; else the reason is in `text`. */
tryst_status rails_open(void *owner, int kind, char *text);
/** Wait for starts under way, TRYST_PEER_TIMEOUT at most; longer ones are left to
 *  their threads. The endpoints are closed, and the caller holds the progress lock. */
void rails_settle(tryst_ctx *ctx);
/** Close all rails. */
void rails_close(tryst_ctx *ctx);
/** Release the descriptors that the rails hold, in a forked child. */
void rails_forked(const tryst_ctx *ctx);

#endif
