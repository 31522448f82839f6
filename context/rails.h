/* SPDX-License-Identifier: Apache-2.0 */
/** @file rails.h
 *  The rails of a context: for each transport one worker per address of an interface,
 *  opened when the first peer needs it.
 */
#ifndef TRYST_CONTEXT_RAILS_H
#define TRYST_CONTEXT_RAILS_H

#include "core/text/err.h"
#include "transports/link/link_listen.h"
#include "transports/select.h"
#include "tryst/tryst.h"

struct rails_start;

struct rails {
    /** The addresses of the interfaces chosen by TRYST_NET or by default, as announced
     *  (netif_rails): address i is NIC i of every network transport. NULL: no group
     *  yet. */
    struct netif_list *interfaces;
    struct rail *all[MEMORY_RAILS_MAX];
    uint32_t count;
    /** By kind and NIC; NULL: closed. */
    struct rails_start *starts[TRANSPORT_KINDS][HOST_RAILS_MAX];
    /** 1 + the rail's index; 0: it has none yet. Kept when a start fails, since starts
     *  may end in any order. */
    uint8_t indices[TRANSPORT_KINDS][HOST_RAILS_MAX];
    uint32_t indices_count;
};

/** Choose the interfaces unless they are chosen: those that TRYST_NET allows, or all
 *  that lead out of this machine. */
tryst_status rails_choose(tryst_ctx *ctx, struct err *err);
/** List the addresses where links listen: those of all rails; the first is announced. */
void rails_link_addresses(const tryst_ctx *ctx, struct link_tcp *tcp);
/** Fill in the rails that this rank announces to the group. */
void rails_announce(const tryst_ctx *ctx, struct host_identity *identity);
/** Return the transports that this process could use, a bit for each kind. Loads no
 *  module. */
uint32_t rails_available(tryst_ctx *ctx);

/** Open the rail of transport `kind` at NIC `nic` for rendezvous
 *  (rendezvous_params.rail_open). TRYST_OK; TRYST_IN_PROGRESS: a thread opens it; else
 *  the reason is in `text`. */
tryst_status rail_open(tryst_ctx *ctx, int kind, uint32_t nic, char *text);
/** Wait for starts under way, TRYST_PEER_TIMEOUT at most; longer ones are left to
 *  their threads. The endpoints are closed, and the caller holds the progress lock. */
void rails_settle(tryst_ctx *ctx);
/** Close all rails. */
void rails_close(tryst_ctx *ctx);
/** Release the descriptors that the rails hold, in a forked child. */
void rails_forked(const tryst_ctx *ctx);

#endif
