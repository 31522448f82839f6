/* SPDX-License-Identifier: Apache-2.0 */
/** @file ucx_private.h
 *  The ucx module's objects. Read README.md first, then ucx_wire.h, then this.
 */
#ifndef UCX_PRIVATE_H
#define UCX_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucp/api/ucp.h>

#include "core/list.h"
#include "core/poller.h"
#include "transports/ep_table.h"
#include "transports/module.h"
#include "transports/transport.h"
#include "ucx_wire.h"

enum {
    /** A frame and its header fit into one packet of every UCX transport with 8 KiB segments, so
     *  frames are never cut and stay in the order of one lane. */
    UCX_FRAME_MAX = TRANSPORT_FRAME_BYTES,
    /** Sends of frames that UCX could not finish at once, per endpoint (31 KiB). UCX copies a frame
     *  into the fabric's buffers while there is room: only a peer that lags uses these. */
    UCX_SLOT_COUNT = 6,
    UCX_POSTED_MAX = 1024,
    UCX_SENDS_MAX = 1024,
    UCX_SLOTS_MAX = 65535, /**< endpoints of a rail; 65535 is UCX_HELLO_TAG's */
};

struct ucx_ep;

/** Why an endpoint is in the rail's work list (bits of ucx_ep.work). */
enum ucx_work {
    UCX_WORK_CONNECT = 1, /**< the next step of connecting, if it is due */
    UCX_WORK_FAILED = 2,  /**< say failed, or ready(UNREACHABLE) while opening */
    UCX_WORK_CLOSE = 4,   /**< closing: again and again until nothing is outstanding */
};

struct ucx_rail {
    struct rail base;
    const tryst_host *host;
    struct list_node log_node; /**< while UCX's thread may log for it */
    struct poller *poller;
    struct poller_source source; /**< UCX's event descriptor */
    ucp_context_h context;
    ucp_worker_h worker; /**< NULL once it had to be destroyed under its endpoints */
    ucp_address_t *address;
    size_t address_bytes;
    struct ep_table table;
    bool direct;                 /**< RDMA: UCX moves bulk itself (ucx_bulk.c) */
    ucp_datatype_t landing_type; /**< how bulk is received where it does not */
    struct list landings;        /**< free ones */
    struct list orphans; /**< those of receives that a closed endpoint left in UCX */
    struct list work;    /**< endpoints with something to do outside UCX's callbacks */
    struct list done;    /**< bulks to report; nothing is reported from inside a call */
    uint32_t opening;    /**< endpoints that connect */
    struct ucx_am hello; /**< the last that came; UCX may write it late */
    uint64_t drained;    /**< messages without a receive */
    uint64_t strangers;  /**< frames and HELLOs with a wrong cookie or endpoint id */
    uint32_t turns;      /**< calls of progress since the last look */
    char name[32];       /**< of the interface, or "any interface" */
};

enum ucx_ep_state {
    UCX_EP_OPENING,
    UCX_EP_READY,
    UCX_EP_BROKEN, /**< refused or failed: waits for ep_close */
    UCX_EP_CLOSING
};

/** What has been seen while opening. */
enum ucx_seen { UCX_SEEN_HELLO = 1, UCX_SEEN_HELLO_BULK = 2, UCX_SEEN_HEARD = 4 };

/** A send of an active message that outlives its call. */
struct ucx_slot {
    struct ucx_ep *ep;
    struct ucx_am header;
    unsigned char data[UCX_FRAME_MAX];
};

struct ucx_ep {
    struct endpoint base;
    struct list_node work_node;
    uint32_t work;
    enum ucx_ep_state state;
    bool loopback, address_sent, heard_sent;
    bool opening;      /**< counted in rail->opening */
    bool flush_wanted; /**< it was ready when it was closed */
    uint8_t seen;      /**< enum ucx_seen */
    uint64_t id, peer_id, cookie;
    int32_t peer_rank;
    ucp_ep_h frames, bulk; /**< two UCP endpoints, so two byte streams where it is TCP */
    unsigned char *peer_address;
    uint32_t peer_address_bytes, peer_address_total;
    uint32_t send_sequence, recv_sequence;
    uint32_t slots_free;                 /**< bit per free entry of `slots` */
    uint32_t sends_active, recvs_active; /**< bulks in UCX's hands */
    struct list active;                  /**< those same bulks */
    uint32_t unreported;                 /**< bulks of ours in rail->done */
    uint32_t flushes_active; /**< UCP endpoints whose last bytes have not left yet */
    uint32_t closes_active;  /**< UCP endpoints whose closing UCX has not confirmed */
    uint64_t flush_until_ns; /**< closing waits for those until then; 0: not closing */
    /** When a forced close that does not end takes the worker; 0: not forced yet. */
    uint64_t close_at_ns;
    tryst_status fail_status;
    char text[TRANSPORT_TEXT_MAX];
    struct ucx_slot slots[UCX_SLOT_COUNT];
};

/** Where UCX's fragments of one receive land: it asks us to copy each (ucx_landing.c). */
struct ucx_landing {
    struct list_node node; /**< of rail->landings or rail->orphans */
    struct ucx_rail *rail;
    struct ucx_bulk *bulk; /**< NULL once revoked: what still comes is dropped */
    unsigned char *data;
    size_t bytes;
};

/** Our use of bulk.scratch. */
struct ucx_bulk {
    struct list_node node; /**< of ep->active, then of rail->done */
    struct ucx_ep *ep;
    void *request;               /**< UCX's, while active */
    struct ucx_landing *landing; /**< of a receive that is not direct, while active */
    size_t bytes;
    tryst_status status;
    bool is_send;
};
_Static_assert(sizeof(struct ucx_bulk) <= sizeof(((struct bulk *)0)->scratch),
               "bulk.scratch");

static inline struct ucx_bulk *bulk_private(struct bulk *bulk)
{
    return (struct ucx_bulk *)&bulk->scratch;
}

static inline struct bulk *bulk_public(struct ucx_bulk *bulk)
{
    return (struct bulk *)((char *)bulk - offsetof(struct bulk, scratch));
}

static inline struct ucx_rail *ep_rail(struct ucx_ep *ep)
{
    return (struct ucx_rail *)ep->base.rail;
}

/* ucx_config.c: the one place that knows UCX's settings. */
tryst_status ucx_context_open(const struct rail_params *params, bool direct,
                              ucp_context_h *context_p, char *text);
/** Whether an RDMA device is behind this interface (NULL: anywhere). */
bool ucx_rdma_present(const char *interface_name);

/* ucx_log.c */
/** Around every call into UCX that may log: its lines go to our log, not to stdout. */
const tryst_host *ucx_log_begin(const tryst_host *host);
void ucx_log_end(const tryst_host *previous);
/** Between them, lines of UCX's own thread may go to the rail's context. */
void ucx_log_open(struct ucx_rail *rail);
void ucx_log_close(struct ucx_rail *rail);
/** Once, when the module is loaded. */
void ucx_log_setup(void);

/* ucx_module.c */
extern const struct transport_ops ucx_ops;

/* ucx_rail.c */
tryst_status ucx_rail_open(const struct rail_params *params, struct rail **rail_p);
void ucx_rail_close(struct rail *rail);
int ucx_rail_progress(struct rail *rail);
tryst_status ucx_rail_arm(struct rail *rail);
tryst_status ucx_mem_register(struct rail *rail, struct tryst_mem *mem, void **handle_p);
void ucx_mem_unregister(struct rail *rail, void *handle);
void ucx_rail_log(const struct ucx_rail *rail, tryst_log_level level, const char *fmt,
                  ...) __attribute__((format(printf, 3, 4)));
/** Are there descriptors for one more endpoint to connect? */
bool ucx_rail_has_room(const struct ucx_rail *rail);
/** Last resort: destroy the worker, so that nothing touches our memory any more. */
void ucx_rail_abandon(struct ucx_rail *rail);

/* ucx_ep.c */
tryst_status ucx_ep_open(struct rail *rail, const struct ep_params *params,
                         struct endpoint **ep_p);
void ucx_ep_message(struct endpoint *ep, const void *data, size_t bytes, int fd);
void ucx_ep_close(struct endpoint *ep);
/** Do what ep->work says. May free `ep`. */
void ucx_ep_work(struct ucx_ep *ep);
void ucx_ep_work_add(struct ucx_ep *ep, enum ucx_work what);
/** The data path is dead. The upper layer learns of it from progress. */
void ucx_ep_fail(struct ucx_ep *ep, tryst_status status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/** Connecting is over: say so. */
void ucx_ep_ready_say(struct ucx_ep *ep);
/** UCX is gone: nothing of this endpoint is in its hands any more. */
void ucx_ep_abandon(struct ucx_ep *ep);
struct ucx_ep *ucx_ep_find(struct ucx_rail *rail, uint64_t id);
/** TRYST_OK when traffic may start; TRYST_AGAIN while `failed` is still to be said (the layer above
 *  hears the reason first); else TRYST_E_PEER. */
tryst_status ucx_ep_usable(const struct ucx_ep *ep);

/* ucx_frame.c */
tryst_status ucx_frame_send(struct endpoint *ep, const void *data, size_t bytes);
/** Over ep->frames. TRYST_AGAIN: all slots are taken. */
tryst_status ucx_am_send(struct ucx_ep *ep, uint32_t kind, const void *data,
                         size_t bytes);
/** Over ucp_ep, whose connection need not be made yet. */
tryst_status ucx_hello_send(struct ucx_ep *ep, ucp_ep_h ucp_ep, uint32_t kind);
/** A HELLO came. */
void ucx_hello_take(struct ucx_rail *rail, const struct ucx_am *hello);
/** Nothing that was sent waits in UCX for its connection. */
bool ucx_sends_left(const struct ucx_ep *ep);
tryst_status ucx_frames_open(struct ucx_rail *rail);

/* ucx_bulk.c */
tryst_status ucx_bulk_recv(struct endpoint *ep, struct bulk *bulk);
tryst_status ucx_bulk_send(struct endpoint *ep, struct bulk *bulk);
void ucx_bulk_cancel(struct endpoint *ep, struct bulk *bulk);
/** Take back every receive: afterwards only direct ones that are matched are still UCX's. */
void ucx_bulk_cancel_all(struct ucx_ep *ep);
/** Without a worker: complete every bulk with `status`. */
void ucx_bulk_abandon_all(struct ucx_ep *ep, tryst_status status);
/** Report what has completed; returns how many. */
int ucx_bulk_report(struct ucx_rail *rail);
/** Take in messages that nobody waits for; returns how many. */
int ucx_bulk_drain(struct ucx_rail *rail);
tryst_status ucx_status(ucs_status_t status);

/* ucx_landing.c */
tryst_status ucx_landings_open(struct ucx_rail *rail);
void ucx_landings_close(struct ucx_rail *rail); /* after the worker */
/** For a receive of `bulk`; NULL: no memory. */
struct ucx_landing *ucx_landing_get(struct ucx_rail *rail, struct ucx_bulk *bulk);
void ucx_landing_put(struct ucx_landing *landing);
/** UCX keeps its receive, and reaches nothing of ours through it any more. */
void ucx_landing_revoke(struct ucx_landing *landing);

#endif
