/* SPDX-License-Identifier: Apache-2.0 */
/** @file ofi_private.h
 *  The ofi module's objects. Read README.md first, then ofi_wire.h, then this.
 */
#ifndef TRYST_TRANSPORTS_OFI_OFI_PRIVATE_H
#define TRYST_TRANSPORTS_OFI_OFI_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#undef container_of /* fabric.h defines an equal one */
#include "ofi_posted.h"
#include "ofi_wire.h"
#include "transports/fabric/fabric_base.h"

enum {
    OFI_FRAME_MAX = TRANSPORT_FRAME_BYTES,
    OFI_MESSAGE_MAX = sizeof(struct ofi_head) +
                      OFI_RECORDS_MAX * sizeof(struct ofi_record) + OFI_FRAME_MAX,
    OFI_RX_COUNT = 64,       /**< receives of messages that a rail keeps posted */
    OFI_CHUNK_PACKETS = 16,  /**< packets that are allocated (and registered) together */
    OFI_EP_PACKETS_MAX = 16, /**< most messages to one peer that the fabric holds */
    OFI_SENDS_MAX = 256,     /**< most active bulk sends of an endpoint */
    OFI_SLOTS_MAX = 32767,   /**< most endpoints of a rail: their slots go into tags */
    OFI_CQ_SIZE = 8192,      /**< most operations of a rail that the fabric holds */
    OFI_RECORDS_LIMIT = 4 * OFI_POSTED_MAX /**< most unsent records of an endpoint */
};

struct ofi_ep;
struct ofi_rail;

/** The purpose of a fabric operation. */
enum ofi_what { OFI_WHAT_RX, OFI_WHAT_TX, OFI_WHAT_RECV, OFI_WHAT_SEND };

/** First member of every object that goes to the fabric as a context. `context` is the
 *  fabric's until the operation completes (FI_CONTEXT, FI_CONTEXT2). */
struct ofi_work {
    struct fi_context2 context;
    enum ofi_what what;
};

/** A message, being received or sent. Packets belong to the rail: the fabric may keep one
 *  after its endpoint has closed. */
struct ofi_packet {
    struct ofi_work work;
    struct list_node node; /**< in rail->packets, rail->unposted or ep->packets */
    struct ofi_ep *ep;     /**< the sending endpoint; NULL once it is gone */
    void *desc;
    _Alignas(8) unsigned char data[OFI_MESSAGE_MAX];
};

struct ofi_chunk {
    struct ofi_chunk *next;
    struct fid_mr *mr;
    struct ofi_packet packets[OFI_CHUNK_PACKETS];
};

/** A bulk that this module holds, allocated from the rail. */
struct ofi_op {
    struct ofi_work work;
    struct list_node node; /**< in ep->active, ep->held or rail->ops */
    struct ofi_ep *ep;
    struct bulk *bulk;
    struct fid_mr *mr; /**< made for this bulk alone, or NULL */
    uint64_t number;   /**< unique in the rail: answers to REVOKE and QUERY repeat it */
    /** The greeting that makes the connection (ofi_bulk_greet): `bulk` is NULL. */
    bool greeting;
    /** Held send: true while it waits for POSTED or NOT_POSTED, false while it waits for
     *  room in the fabric. */
    bool asked;
    bool revoked;  /**< receive: REVOKE was sent */
    bool canceled; /**< receive: fi_cancel was called */
    bool too_long; /**< receive: canceled, since the message does not fit */
};

/** The module's part of bulk.scratch. */
struct ofi_bulk {
    struct fabric_bulk fabric;
    struct ofi_op *op; /**< NULL once the bulk has completed */
};
_Static_assert(sizeof(struct ofi_bulk) <= sizeof(((struct bulk *)0)->scratch),
               "bulk.scratch");

struct ofi_rail {
    struct fabric_rail fabric; /**< source: the completion queue's descriptor */
    struct fi_info *info;
    struct fid_fabric *fid_fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *messages; /**< one fabric endpoint for the messages of all pairs */
    unsigned char address[OFI_ADDRESS_MAX];
    size_t address_bytes;
    uint32_t port_first, ports_count; /**< TRYST_PORT_RANGE; count 0: any port */
    bool mr_local;  /**< host memory that the fabric reads or writes must be registered */
    bool mr_device; /**< device memory must be registered */
    /** A failed registration of device memory was logged; no other is. */
    bool mr_failure_logged;
    uint64_t mr_key;    /**< key of the newest registration */
    uint64_t slot_mask; /**< the bits of a slot that fit above a tag */
    uint64_t numbers;   /**< ofi_op.number of the newest operation */
    struct ofi_chunk *chunks;
    struct list packets;  /**< free packets */
    struct list unposted; /**< receives that the fabric had no room for */
    struct list ops;      /**< free operations */
    struct list stalled;  /**< endpoints with work for which the fabric had no room */
    uint32_t live;        /**< operations that the fabric holds */
    struct ofi_parked *parked; /**< fabric endpoints of pairs that are gone */
    bool parks;     /**< endpoints of pairs are closed with the rail (ofi_info_parks) */
    bool unsettled; /**< a peer may still be connecting to a closed endpoint here */
    /** When to check for bulk connections that do not come; 0: never. */
    uint64_t watch_at_ns;
};

/** A pair's fabric endpoint that is no longer used and not closed yet. */
struct ofi_parked {
    struct ofi_parked *next;
    struct fid_ep *ep;
};

struct ofi_ep {
    struct fabric_ep fabric;
    bool initiator;
    bool hello_sent, hello_seen;
    bool place_due; /**< the bulk endpoint's address must be sent to the peer */
    /** The peer's addresses; FI_ADDR_UNSPEC until they have come. */
    fi_addr_t peer_messages, peer_bulk;
    struct fid_ep *bulk; /**< the pair's own endpoint; NULL until it is needed */
    bool greeted;        /**< the greeting was sent, or its receive is posted */
    uint64_t bulk_at_ns; /**< when `bulk` was opened */
    /** Bulk may be sent: this side is the initiator, or the greeting has come. */
    bool bulk_reached;
    uint32_t packets_active;
    struct list packets; /**< packets being sent */
    /** A frame that the fabric has no room for yet, or NULL. */
    struct ofi_packet *unsent;
    size_t unsent_bytes;
    struct list active;         /**< bulks that the fabric holds */
    struct list held;           /**< sends that the fabric does not have yet */
    struct ofi_record *records; /**< records to send, from records_head on */
    uint32_t records_head, records_count, records_capacity;
    struct ofi_posted_table posted;
};

static inline struct ofi_bulk *bulk_private(struct bulk *bulk)
{
    return (struct ofi_bulk *)&bulk->scratch;
}

static inline struct ofi_rail *ep_rail(struct ofi_ep *ep)
{
    return (struct ofi_rail *)ep->fabric.base.rail;
}

#endif
