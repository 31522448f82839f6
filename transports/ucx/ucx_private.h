/* SPDX-License-Identifier: Apache-2.0 */
/** @file ucx_private.h
 *  The ucx module's objects. Read README.md first, then ucx_wire.h, then this.
 */
#ifndef TRYST_TRANSPORTS_UCX_UCX_PRIVATE_H
#define TRYST_TRANSPORTS_UCX_UCX_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucp/api/ucp.h>

#include "core/memory/list.h"
#include "transports/fabric/fabric_base.h"
#include "ucx_wire.h"

enum {
    /** A frame and its header fit into one packet of every UCX transport with 8 KiB
     *  segments, so frames are never cut and keep the order of one lane. */
    UCX_FRAME_MAX = TRANSPORT_FRAME_BYTES,
    /** Frames of an endpoint that UCX holds at most (31 KiB). UCX copies a frame into the
     *  fabric's buffers while these have room, so only a slow peer needs more than one
     *  slot. */
    UCX_SLOT_COUNT = 6,
    UCX_POSTED_MAX = 1024, /**< most active receives of an endpoint */
    UCX_SENDS_MAX = 1024,  /**< most active bulk sends of an endpoint */
    /** Most endpoints of a rail; slot 65535 belongs to UCX_HELLO_TAG. */
    UCX_SLOTS_MAX = 65535,
};

struct ucx_ep;

struct ucx_rail {
    struct fabric_rail fabric;
    struct list_node log_node; /**< in the list of rails for which UCX's thread may log */
    ucp_context_h context;
    ucp_worker_h worker; /**< NULL after ucx_rail_abandon */
    ucp_address_t *address;
    size_t address_bytes;
    bool direct;                 /**< RDMA: UCX moves bulk itself (ucx_bulk.c) */
    ucp_datatype_t landing_type; /**< datatype of receives on a rail that is not direct */
    struct list landings;        /**< free landings */
    struct list orphans; /**< landings of receives that a closed endpoint left in UCX */
    uint32_t opening;    /**< number of endpoints that are connecting */
    struct ucx_am
        hello;        /**< the newest HELLO; in the rail, since UCX may write it late */
    uint64_t drained; /**< bulks without a posted receive */
    uint64_t senderless; /**< those of them that came from an unknown sender */
    uint32_t turns;      /**< calls of progress since the last drain */
};

/** Messages received while opening (CONFIRM: fabric.confirm_seen). */
enum ucx_seen { UCX_SEEN_HELLO = 1, UCX_SEEN_HELLO_BULK = 2 };

/** A message that UCX may still read after the call that sends it. */
struct ucx_slot {
    struct ucx_ep *ep;
    struct ucx_am header;
    _Alignas(8) unsigned char data[UCX_FRAME_MAX];
};

struct ucx_ep {
    struct fabric_ep fabric;
    bool opening;          /**< counted in rail->opening */
    bool flush_wanted;     /**< closing: sent bytes must leave first (close_start) */
    uint8_t seen;          /**< bits of enum ucx_seen */
    ucp_ep_h frames, bulk; /**< two UCP endpoints, so two byte streams over TCP */
    unsigned char *peer_address;
    uint32_t peer_address_bytes, peer_address_total;
    uint32_t slots_free; /**< bit per free entry of `slots` */
    struct list active;  /**< bulks that UCX holds */
    uint64_t newest_tag; /**< number of the newest receive; valid with `has_posted` */
    bool has_posted;
    uint32_t flushes_active; /**< UCP endpoints with sent bytes that have not left yet */
    uint32_t closes_active;  /**< UCP endpoints that UCX has not confirmed as closed */
    /** Time until which closing waits for the flushes; 0: closing has not begun. */
    uint64_t flush_until_ns;
    /** Time at which the worker is destroyed if the forced close has not ended; 0: the
     *  close is not forced yet. */
    uint64_t close_at_ns;
    struct ucx_slot slots[UCX_SLOT_COUNT];
};

/** The destination of one receive: UCX hands over each fragment, and ucx_landing.c copies
 *  it there. */
struct ucx_landing {
    struct list_node node; /**< in rail->landings or rail->orphans */
    struct ucx_rail *rail;
    struct ucx_bulk *bulk; /**< NULL once revoked: later fragments are dropped */
    unsigned char *data;
    size_t bytes;
};

/** The module's part of bulk.scratch. */
struct ucx_bulk {
    struct fabric_bulk fabric; /**< node: in ep->active, then in rail->fabric.done */
    void *request;             /**< UCX's request while the bulk is active, else NULL */
    /** Landing of an active receive on a rail that is not direct, else NULL. */
    struct ucx_landing *landing;
};
_Static_assert(sizeof(struct ucx_bulk) <= sizeof(((struct bulk *)0)->scratch),
               "bulk.scratch");

static inline struct ucx_bulk *bulk_private(struct bulk *bulk)
{
    return (struct ucx_bulk *)&bulk->scratch;
}

static inline struct ucx_rail *ep_rail(struct ucx_ep *ep)
{
    return (struct ucx_rail *)ep->fabric.base.rail;
}

#endif
