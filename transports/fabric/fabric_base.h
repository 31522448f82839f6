/* SPDX-License-Identifier: Apache-2.0 */
/** @file fabric_base.h
 *  The part of a fabric's module that is independent of its fabric: the first members of
 *  ucx's and ofi's rails, endpoints and bulks, and the functions on them. Compiled into
 *  each module.
 *
 *   OPENING ── the handshake ──▶ READY ── a fabric's error, a broken rule ──▶ BROKEN
 *      └─ refused, an error ─▶ BROKEN         any ── ep_close ──▶ CLOSING ──▶ freed
 *
 *  Idea: calls and the fabric's callbacks only queue notes, in the rail's lists `done`
 *  (bulks) and `work` (endpoints); progress reports them after the fabric has returned.
 *  So the layer above may call any function from an event, ep_close included, without
 *  being inside the fabric. (ucx alone delivers frames from inside the fabric.)
 */
#ifndef TRYST_TRANSPORTS_FABRIC_FABRIC_BASE_H
#define TRYST_TRANSPORTS_FABRIC_FABRIC_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/memory/list.h"
#include "core/os/poller.h"
#include "ep_table.h"
#include "transports/module.h"
#include "transports/transport.h"

/* ---- rails ---- */

/** Largest bulk where the fabric has no limit: half of a process's address space on
 *  x86-64. */
#define FABRIC_BULK_MAX ((uint64_t)1 << 46)

/** The first bytes of each connect message of both modules; the rest of the module's head
 *  follows, then an address or a text. */
struct fabric_connect {
    uint32_t magic;
    uint16_t version;
    uint16_t kind; /**< enum fabric_connect_kind */
};
_Static_assert(sizeof(struct fabric_connect) == 8, "wire");

enum fabric_connect_kind { FABRIC_CONNECT_ADDRESS = 1, FABRIC_CONNECT_REFUSED = 2 };

enum {
    /** Most bytes of a connect message (rail_events.connect_send). */
    FABRIC_CONNECT_MAX = 4096,
    FABRIC_HEAD_MAX = 64 /**< most bytes of a connect message's head */
};

struct fabric_rail {
    struct rail base;
    const struct tryst_host *host;
    struct poller *poller;
    /** The fabric's descriptor (-1: none). fn is NULL while the descriptor is not
     *  registered with the poller. */
    struct poller_source source;
    struct ep_table table;
    struct list done; /**< bulks to report; nothing is reported from inside a call */
    struct list work; /**< endpoints with work for the next progress */
    uint64_t unauthenticated; /**< messages with a wrong cookie or endpoint id */
    /** First bytes of the module's messages of kind ADDRESS. */
    struct fabric_connect connect;
    size_t connect_bytes; /**< bytes of a connect message's whole head */
    char name[32];        /**< name of the interface, or "any interface" */
};

/** Allocate a rail of `bytes` bytes and fill in this part; the rest is zero. The rail
 *  holds at most `eps_max` endpoints at once (ep_table.h). NULL: out of memory. */
void *fabric_rail_new(const struct rail_params *params, const struct transport_ops *ops,
                      size_t bytes, uint32_t eps_max);
void fabric_rail_free(struct fabric_rail *rail);

/** Register source.fd with the poller, if the rail has a descriptor
 *  (transport_ops.rail_attach). */
tryst_status fabric_rail_attach(struct rail *rail);
/** Remove the descriptor from the poller, and forget it: source.fd becomes -1. */
void fabric_rail_unwatch(struct fabric_rail *rail);

void fabric_rail_log(const struct fabric_rail *rail, tryst_log_level level,
                     const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/** Log the reason why the rail cannot be opened, and give it to the caller of
 *  rail_open. */
void fabric_rail_refuse(const struct fabric_rail *rail, const struct rail_params *params,
                        const char *text);

/** True if the next progress has work. */
static inline bool fabric_rail_is_due(const struct fabric_rail *rail)
{
    return !list_empty(&rail->work) || !list_empty(&rail->done);
}

/** Move all nodes of `list` to `taken_p`; nodes that are added meanwhile wait for the
 *  next call. */
static inline struct list *fabric_list_move(struct list *taken_p, struct list *list)
{
    list_init(taken_p);
    list_append(taken_p, list);
    return taken_p;
}

/* ---- endpoints ---- */

enum fabric_state {
    FABRIC_OPENING,
    FABRIC_READY,
    FABRIC_BROKEN, /**< refused or failed; ends by ep_close */
    FABRIC_CLOSING
};

/** Why an endpoint is in the rail's work list (bits of fabric_ep.work). */
enum fabric_due {
    FABRIC_DUE_CONNECT = 1, /**< try the next step of connecting */
    FABRIC_DUE_FAILED = 2,  /**< report failed, or ready(UNREACHABLE) while opening */
    FABRIC_DUE_CLOSE = 4,   /**< go on closing */
    FABRIC_DUE_PUMP = 8     /**< ofi: send records, or start held bulks */
};

struct fabric_ep {
    struct endpoint base;
    struct list_node work_node;
    uint32_t work; /**< bits of enum fabric_due */
    enum fabric_state state;
    bool loopback;
    bool address_sent, confirm_sent, confirm_seen; /**< progress of the handshake */
    uint64_t id, peer_id, cookie;
    uint32_t send_sequence, recv_sequence; /**< numbers of the next messages */
    uint32_t sends_active, recvs_active; /**< bulks that the module or the fabric holds */
    uint32_t unreported;                 /**< this endpoint's bulks in rail->done */
    tryst_status fail_status;
    char text[TRANSPORT_TEXT_MAX];
};

static inline struct fabric_rail *fabric_ep_rail(const struct fabric_ep *ep)
{
    return (struct fabric_rail *)ep->base.rail;
}

/** Allocate an endpoint of `bytes` bytes and fill in this part; the rest is zero. The
 *  endpoint has an id, and connecting is due. TRYST_OK, TRYST_E_NOMEM (out of memory, or
 *  too many endpoints), TRYST_E_SYSTEM (no random bytes for the id; logged). */
tryst_status fabric_ep_new(struct fabric_rail *rail, const struct ep_params *params,
                           size_t bytes, struct fabric_ep **ep_p);
/** Report `closed`, and free the endpoint. The fabric must hold nothing of it any
 *  more. */
void fabric_ep_free(struct fabric_ep *ep);

/** Add `what` to the endpoint's work, and the endpoint to the rail's work list. */
void fabric_ep_due(struct fabric_ep *ep, enum fabric_due what);

/** Fail the endpoint: state BROKEN. Progress reports the failure to the layer above. Has
 *  no effect unless the endpoint is live. */
void fabric_ep_fail(struct fabric_ep *ep, tryst_status status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/** Report the failure to the layer above; to the peer, too, if the endpoint was still
 *  opening. */
void fabric_ep_failure_report(struct fabric_ep *ep);
/** Report that connecting has succeeded. */
void fabric_ep_ready_report(struct fabric_ep *ep, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/** Start closing. False: it is closing already. */
bool fabric_ep_close(struct fabric_ep *ep);

/** Handle a connect message, for ep_message. True if `data` has the module's head and an
 *  address follows, which the caller handles. Other messages are done with: they failed
 *  the endpoint or were dropped. */
bool fabric_connect_handle(struct fabric_ep *ep, const void *data, size_t bytes, int fd);
/** Send a connect message: a head of rail->connect_bytes, then `bytes` bytes of `data`;
 *  at most FABRIC_CONNECT_MAX in all. */
tryst_status fabric_connect_send(struct fabric_ep *ep, const void *head, const void *data,
                                 size_t bytes);

/** Check whether traffic may start: TRYST_OK. TRYST_AGAIN while `failed` is not reported
 *  yet, so that the layer above gets the reason first. Else TRYST_E_PEER. */
static inline tryst_status fabric_ep_usable(const struct fabric_ep *ep)
{
    if (ep->state == FABRIC_READY)
        return TRYST_OK;
    return ep->work & FABRIC_DUE_FAILED ? TRYST_AGAIN : TRYST_E_PEER;
}

static inline bool fabric_ep_is_live(const struct fabric_ep *ep)
{
    return ep->state == FABRIC_OPENING || ep->state == FABRIC_READY;
}

/** Check whether a bulk may start: TRYST_OK. TRYST_AGAIN: `most` of its direction are
 *  active, or the endpoint has failed (fabric_ep_usable). TRYST_E_PEER,
 *  TRYST_E_UNSUPPORTED (this device memory). */
static inline tryst_status fabric_bulk_check(const struct fabric_ep *ep,
                                             const struct bulk *bulk, bool is_send,
                                             uint32_t most)
{
    uint32_t active = is_send ? ep->sends_active : ep->recvs_active;
    tryst_status status = fabric_ep_usable(ep);
    if (status != TRYST_OK)
        return status;
    if (!rail_takes(ep->base.rail, bulk))
        return TRYST_E_UNSUPPORTED;
    return active < most ? TRYST_OK : TRYST_AGAIN;
}

/** Find the endpoint of a message by id and cookie. NULL: there is none, or it has
 *  closed; the message counts as unauthenticated. */
static inline void *fabric_ep_receiver(struct fabric_rail *rail, uint64_t id,
                                       uint64_t cookie)
{
    struct fabric_ep *ep = ep_table_find(&rail->table, id);
    if (ep && ep->cookie == cookie)
        return ep;
    rail->unauthenticated++;
    return NULL;
}

/** True if `sequence` is the number of the next message; else the endpoint fails. (The
 *  fabric keeps the order; the numbers prove it.) */
static inline bool fabric_ep_sequence_advance(struct fabric_ep *ep, uint32_t sequence)
{
    if (sequence == ep->recv_sequence) {
        ep->recv_sequence++;
        return true;
    }
    fabric_ep_fail(ep, TRYST_E_PROTOCOL,
                   "protocol error: message %u instead of message %u", sequence,
                   ep->recv_sequence);
    return false;
}

/* ---- bulk ---- */

/** The first part of a bulk's scratch, for both modules. */
struct fabric_bulk {
    struct list_node node; /**< in rail->done; before that, for the module's own use */
    struct fabric_ep *ep;
    size_t bytes;
    tryst_status status;
    bool is_send;
};

/** Count a bulk as active: the module or the fabric holds it. */
static inline void fabric_bulk_begin(struct fabric_ep *ep, struct fabric_bulk *bulk,
                                     bool is_send)
{
    *bulk = (struct fabric_bulk){.ep = ep, .is_send = is_send};
    *(is_send ? &ep->sends_active : &ep->recvs_active) += 1;
}

/** Count a bulk as no longer active. */
static inline void fabric_bulk_undo(struct fabric_bulk *bulk)
{
    *(bulk->is_send ? &bulk->ep->sends_active : &bulk->ep->recvs_active) -= 1;
}

/** Queue a completed bulk for fabric_bulk_report, from inside a call or a callback. */
static inline void fabric_bulk_complete(struct fabric_bulk *bulk, tryst_status status,
                                        size_t bytes)
{
    fabric_bulk_undo(bulk);
    bulk->status = status;
    bulk->bytes = bytes;
    (void)list_remove(&bulk->node);
    list_push_back(&fabric_ep_rail(bulk->ep)->done, &bulk->node);
    bulk->ep->unreported++;
}

static inline struct bulk *fabric_bulk_public(struct fabric_bulk *bulk)
{
    return (struct bulk *)((char *)bulk - offsetof(struct bulk, scratch));
}

/** Report all completed bulks; returns how many. */
int fabric_bulk_report(struct fabric_rail *rail);

/* ---- the library's log ---- */

/* A fabric's library has one log per process, which other users share. A line that is
 * written while the thread is in a block of FABRIC_LOG_SCOPE (around every call into the
 * library that may log) is that context's; any other line belongs to another user. */

/** The context that called into the library in this thread, or NULL. */
extern __thread const struct tryst_host *fabric_log_host
    __attribute__((tls_model("initial-exec")));

static inline const struct tryst_host *fabric_log_begin(const struct tryst_host *host)
{
    const struct tryst_host *previous = fabric_log_host;
    fabric_log_host = host;
    return previous;
}

static inline void fabric_log_end(const struct tryst_host **previous)
{
    fabric_log_host = *previous;
}

/** Assign the library's lines to the context of `host`, from here to the end of the
 *  block. */
#define FABRIC_LOG_SCOPE(host)                       \
    __attribute__((cleanup(fabric_log_end), unused)) \
    const struct tryst_host *log_previous = fabric_log_begin(host)

#endif
