/* SPDX-License-Identifier: Apache-2.0 */
/** @file ofi_private.h
 *  The ofi module's objects. Read README.md first, then ofi_wire.h, then this.
 */
#ifndef OFI_PRIVATE_H
#define OFI_PRIVATE_H

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

#undef container_of /* fabric.h has one of its own, the same */
#include "core/list.h"
#include "core/poller.h"
#include "ofi_wire.h"
#include "transports/ep_table.h"
#include "transports/module.h"
#include "transports/transport.h"

enum {
    OFI_FRAME_MAX = TRANSPORT_FRAME_BYTES,
    OFI_MESSAGE_MAX = sizeof(struct ofi_head) +
                      OFI_RECORDS_MAX * sizeof(struct ofi_record) + OFI_FRAME_MAX,
    OFI_RX_COUNT = 64,       /**< receives of messages that a rail keeps posted */
    OFI_CHUNK_PACKETS = 16,  /**< packets are allocated (and registered) together */
    OFI_EP_PACKETS_MAX = 16, /**< messages to one peer that the fabric has not finished */
    OFI_POSTED_MAX = 256,
    OFI_SENDS_MAX = 256,
    OFI_SLOTS_MAX = 32767, /**< endpoints of a rail: their slots go into tags */
    OFI_CQ_SIZE = 8192,    /**< operations of a rail that the fabric may hold */
    OFI_RECORDS_LIMIT = 4 * OFI_POSTED_MAX /**< records not sent yet, per endpoint */
};

struct ofi_ep;
struct ofi_rail;

/** What an operation of the fabric's is about. */
enum ofi_what { OFI_WHAT_RX, OFI_WHAT_TX, OFI_WHAT_RECV, OFI_WHAT_SEND };

/** First member of whatever is given to the fabric as a context. `context` is the fabric's
 *  until the operation completes (FI_CONTEXT, FI_CONTEXT2). */
struct ofi_work {
    struct fi_context2 context;
    enum ofi_what what;
};

/** A message, to be received or being sent. Belongs to the rail: a packet that the fabric does
 *  not give back when its endpoint closes just stays there. */
struct ofi_packet {
    struct ofi_work work;
    struct list_node node; /**< of rail->packets, rail->unposted or ep->packets */
    struct ofi_ep *ep;     /**< sending to; NULL once that endpoint is gone */
    void *desc;
    _Alignas(8) unsigned char data[OFI_MESSAGE_MAX];
};

struct ofi_chunk {
    struct ofi_chunk *next;
    struct fid_mr *mr;
    struct ofi_packet packets[OFI_CHUNK_PACKETS];
};

/** A bulk in our hands, allocated from the rail. */
struct ofi_op {
    struct ofi_work work;
    struct list_node node; /**< of ep->active, ep->held, rail->done or rail->ops */
    struct ofi_ep *ep;
    struct bulk *bulk;
    struct fid_mr *mr; /**< made for this bulk alone, or NULL */
    uint64_t number;   /**< of this posting: REVOKED and STARTED name it */
    size_t bytes;
    tryst_status status;
    bool greeting; /**< no bulk, but what makes the connection (ofi_bulk_greet) */
    bool asked; /**< held send: waits for POSTED or NOBODY; else for room in the fabric */
    bool revoked;  /**< receive: REVOKE was sent */
    bool canceled; /**< receive: fi_cancel was called */
    bool too_long; /**< receive: and then this is why */
};

struct ofi_rail {
    struct rail base;
    const tryst_host *host;
    struct poller *poller;
    struct poller_source source; /**< the completion queue's descriptor, fn NULL: none */
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *messages; /**< of all pairs */
    unsigned char address[OFI_ADDRESS_MAX];
    size_t address_bytes;
    uint32_t port_first, ports_count; /**< TRYST_PORT_RANGE; 0 of them: any */
    bool mr_local;  /**< what the fabric reads or writes must be registered */
    bool mr_device; /**< the same of device memory */
    bool mr_told;   /**< that some device memory cannot be, once */
    uint64_t mr_key;
    uint64_t slot_mask; /**< bits of a slot that fit above a tag */
    uint64_t numbers;
    struct ofi_chunk *chunks;
    struct list packets;  /**< free ones */
    struct list unposted; /**< receives that the fabric had no room for */
    struct list ops;      /**< free ones */
    struct list done;     /**< bulks to report; nothing is reported from inside a call */
    struct list work;     /**< endpoints with something to do in the next progress */
    struct list stalled;  /**< those that the fabric told to try again */
    uint32_t live;        /**< operations in the fabric's hands */
    struct ep_table table;
    struct ofi_parked *parked; /**< fabric endpoints of pairs that are gone */
    bool parks;     /**< closing one is left to the rail's end (ofi_info_parks) */
    bool unsettled; /**< a connection towards us may be half made */
    uint64_t
        watch_at_ns; /**< when to look for bulk connections that do not come; 0 never */
    uint64_t strangers; /**< messages with a wrong cookie or endpoint id */
    char name[32];      /**< of the interface, or "any interface" */
};

/** A pair's fabric endpoint that nobody uses any more. */
struct ofi_parked {
    struct ofi_parked *next;
    struct fid_ep *ep;
};

enum ofi_ep_state {
    OFI_EP_OPENING,
    OFI_EP_READY,
    OFI_EP_BROKEN, /**< refused or failed: waits for ep_close */
    OFI_EP_CLOSING
};

/** Why an endpoint is in the rail's work list (bits of ofi_ep.work). */
enum ofi_due {
    OFI_DUE_CONNECT = 1, /**< the next step of connecting */
    OFI_DUE_FAILED = 2,  /**< say failed, or ready(UNREACHABLE) while opening */
    OFI_DUE_CLOSE = 4,
    OFI_DUE_PUMP = 8 /**< records to send, or held bulks to start */
};

/** A receive that the peer has posted for us. */
struct ofi_posted {
    uint64_t tag;
    uint64_t room;
    uint32_t next; /**< index + 1 in the chain of its bucket, or of the free ones */
};

enum { OFI_BUCKETS = 128 };

/** ofi_posted.c */
struct ofi_posted_table {
    uint32_t buckets[OFI_BUCKETS]; /**< index + 1 into entries, 0: empty */
    uint32_t count, free, capacity;
    struct ofi_posted *entries;
};

struct ofi_ep {
    struct endpoint base;
    struct list_node work_node;
    uint32_t work; /**< enum ofi_due */
    enum ofi_ep_state state;
    bool initiator, loopback;
    bool address_sent, peer_known, hello_sent, hello_seen, heard_sent, heard_seen;
    bool place_due; /**< our bulk endpoint's address has to be told */
    uint64_t id, peer_id, cookie;
    int32_t peer_rank;
    fi_addr_t peer_messages, peer_bulk;
    struct fid_ep *bulk; /**< NULL until it is needed */
    bool greeted;        /**< the greeting was sent, or its receive is posted */
    uint64_t bulk_at_ns; /**< when it was made */
    bool bulk_reached;   /**< bulk may be sent: the connection is the initiator's */
    uint32_t send_sequence, recv_sequence;
    uint32_t packets_active;
    struct list packets;                 /**< being sent */
    struct list active;                  /**< bulks in the fabric's hands */
    struct list held;                    /**< sends that are not yet */
    uint32_t recvs_active, sends_active; /**< sends: those held too */
    struct ofi_record *records;          /**< to send, from records_head on */
    uint32_t records_head, records_count, records_capacity;
    struct ofi_posted_table posted;
    tryst_status fail_status;
    char text[TRANSPORT_TEXT_MAX];
};

static inline struct ofi_rail *ep_rail(struct ofi_ep *ep)
{
    return (struct ofi_rail *)ep->base.rail;
}

/* ofi_module.c */
extern const struct transport_ops ofi_ops;

/* ofi_choose.c: the one place that knows providers; asks nobody. */
/** How good its provider is, 0: only where the user names it. */
int ofi_info_rank(const struct fi_info *info);
/** Whether closing an endpoint of this provider while the rail goes on is to be avoided. */
bool ofi_info_parks(const struct fi_info *info);
/** Messages of rxm over another provider's connections. */
bool ofi_info_is_rxm(const struct fi_info *info);
/** The largest slice and the least window for struct rail, 0: any. */
uint32_t ofi_info_slice_bytes(const struct fi_info *info);
uint64_t ofi_info_window_bytes(const struct fi_info *info);
/** Whether shared memory moves the bytes of this provider. */
bool ofi_info_is_shm(const struct fi_info *info);
bool ofi_info_has_ip(const struct fi_info *info);
/** What we need and no hint can ask for. */
bool ofi_info_is_usable(const struct fi_info *info);
/** How well `info` serves this rail, 0: not at all. `named`: the user named providers. */
int ofi_info_score(const struct fi_info *info, const struct rail_params *params,
                   bool named);
/** The best of those with IP addresses, or of those without; NULL: none serves. */
const struct fi_info *ofi_info_best(const struct fi_info *list,
                                    const struct rail_params *params, bool named,
                                    bool ip);
/** Its provider says that it moves device memory: perhaps not CUDA's. */
bool ofi_info_claims_device(const struct fi_info *info);
/** It wants device memory registered, and its handle beside the bytes. */
bool ofi_info_registers_device(const struct fi_info *info);
/** The fabric of `plain` among those that were asked for with FI_HMEM, or NULL. */
const struct fi_info *ofi_info_device(const struct fi_info *plain,
                                      const struct fi_info *claims);

/* ofi_fabric.c: what libfabric is asked for, and what it logs. */
/** The description to open `params`' rail with, and the same fabric's that claims device memory,
 *  or NULL; free both with fi_freeinfo. `text` says why not. */
tryst_status ofi_info_choose(const struct rail_params *params, struct fi_info **info_p,
                             struct fi_info **device_p, char *text);
/** What is there, in one line. */
tryst_status ofi_info_describe(char *text);
const tryst_host *ofi_log_begin(const tryst_host *host);
void ofi_log_end(const tryst_host *previous);
void ofi_log_setup(void);

/* ofi_rail.c */
tryst_status ofi_rail_open(const struct rail_params *params, struct rail **rail_p);
void ofi_rail_close(struct rail *rail);
int ofi_rail_progress(struct rail *rail);
tryst_status ofi_rail_arm(struct rail *rail);
void ofi_rail_log(const struct ofi_rail *rail, tryst_log_level level, const char *fmt,
                  ...) __attribute__((format(printf, 3, 4)));
/** A fabric endpoint of this rail; its address goes to `address` (OFI_ADDRESS_MAX). */
int ofi_endpoint_open(struct ofi_rail *rail, struct fid_ep **ep_p, unsigned char *address,
                      size_t *bytes_p);
/** Take in all that has completed so far. */
int ofi_cq_drain(struct ofi_rail *rail);
/** Takes the queue's descriptor out of the poller: the rail is asked now and then. */
void ofi_rail_wait_end(struct ofi_rail *rail);

/* ofi_sockets.c */
/** Breaks the TCP connections of `ep`'s fabric endpoint: what is under way there ends by an error, in one of the next
 *  reads of the queue. Looks at every descriptor of the process, at most 65536. */
void ofi_sockets_break(struct ofi_ep *ep);

/* ofi_memory.c: packets, operations, registrations. */
struct ofi_packet *ofi_packet_get(struct ofi_rail *rail);
void ofi_packet_put(struct ofi_rail *rail, struct ofi_packet *packet);
struct ofi_op *ofi_op_get(struct ofi_rail *rail);
void ofi_op_put(struct ofi_rail *rail, struct ofi_op *op);
void ofi_memory_free(struct ofi_rail *rail);
tryst_status ofi_mem_register(struct rail *rail, struct tryst_mem *mem, void **handle_p);
void ofi_mem_unregister(struct rail *rail, void *handle);
/** What the fabric wants to see beside `op`'s bytes; NULL with TRYST_OK where it wants nothing.
 *  TRYST_E_UNSUPPORTED: it does not take this device memory. */
tryst_status ofi_op_desc(struct ofi_op *op, void **desc_p);

/* ofi_ep.c */
tryst_status ofi_ep_open(struct rail *rail, const struct ep_params *params,
                         struct endpoint **ep_p);
void ofi_ep_message(struct endpoint *ep, const void *data, size_t bytes, int fd);
void ofi_ep_close(struct endpoint *ep);
/** Do what ep->work says; returns how much was done. May free `ep`. */
int ofi_ep_work(struct ofi_ep *ep);
void ofi_ep_due(struct ofi_ep *ep, enum ofi_due what);
/** The data path is dead. The upper layer learns of it from progress. */
void ofi_ep_fail(struct ofi_ep *ep, tryst_status status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void ofi_ep_ready_say(struct ofi_ep *ep);
struct ofi_ep *ofi_ep_find(struct ofi_rail *rail, uint64_t id);
/** TRYST_OK when traffic may start; TRYST_AGAIN while `failed` is still to be said (the layer
 *  above hears the reason first); else TRYST_E_PEER. */
tryst_status ofi_ep_usable(const struct ofi_ep *ep);

/* ofi_frame.c */
tryst_status ofi_frame_send(struct endpoint *ep, const void *data, size_t bytes);
/** A message of `kind`; DATA takes as many of the endpoint's records along as fit. */
tryst_status ofi_message_send(struct ofi_ep *ep, enum ofi_kind kind, const void *data,
                              size_t bytes);
void ofi_message_sent(struct ofi_rail *rail, struct ofi_packet *packet, int error);
void ofi_message_received(struct ofi_rail *rail, struct ofi_packet *packet, size_t bytes);
/** Post a receive of a message. */
void ofi_message_post(struct ofi_rail *rail, struct ofi_packet *packet);
void ofi_record_add(struct ofi_ep *ep, enum ofi_record_kind kind, uint64_t tag,
                    uint64_t value);
/** Send what is due. TRYST_AGAIN: some is left. */
tryst_status ofi_records_send(struct ofi_ep *ep);

/* ofi_bulk.c */
tryst_status ofi_bulk_recv(struct endpoint *ep, struct bulk *bulk);
tryst_status ofi_bulk_send(struct endpoint *ep, struct bulk *bulk);
void ofi_bulk_cancel(struct endpoint *ep, struct bulk *bulk);
/** The fabric has finished with `op`: `error` is one of FI_E…, or 0. */
void ofi_bulk_completed(struct ofi_op *op, int error, size_t bytes);
/** One of the peer's records. */
void ofi_bulk_record(struct ofi_ep *ep, const struct ofi_record *record);
/** Open the pair's fabric endpoint and tell its place, if that was not done. */
tryst_status ofi_bulk_open(struct ofi_ep *ep);
/** Bulk connections that this process has no descriptor for: nobody else would ever say so. */
void ofi_bulk_watch(struct ofi_rail *rail);
/** The initiator's greeting, or its receive at the other side. TRYST_AGAIN: try later. */
tryst_status ofi_bulk_greet(struct ofi_ep *ep);
/** Start held sends. TRYST_AGAIN: the fabric has no room for some. */
tryst_status ofi_held_start(struct ofi_ep *ep);
/** Report what has completed; returns how many. */
int ofi_bulk_report(struct ofi_rail *rail);
/** Ask the fabric for every receive back. */
void ofi_bulk_cancel_all(struct ofi_ep *ep);
/** The fabric's endpoint is closed: all that is left completes. */
void ofi_bulk_abandon(struct ofi_ep *ep);

/* ofi_posted.c */
tryst_status ofi_posted_add(const tryst_host *host, struct ofi_posted_table *table,
                            uint64_t tag, uint64_t room);
/** Take the entry out; false when there is none. */
bool ofi_posted_take(struct ofi_posted_table *table, uint64_t tag, uint64_t *room_p);
void ofi_posted_free(const tryst_host *host, struct ofi_posted_table *table);

#endif
