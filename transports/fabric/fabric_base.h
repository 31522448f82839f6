/* SPDX-License-Identifier: Apache-2.0 */
/** @file fabric_base.h
 *  What a fabric's module is beside its fabric: the first members of ucx's and of ofi's rails, endpoints
 *  and bulks, and what is done with them. Compiled into each module.
 *
 *   OPENING ── the handshake ──▶ READY ── a fabric's error, a broken rule ──▶ BROKEN
 *      └─ refused, an error ─▶ BROKEN         any ── ep_close ──▶ CLOSING ──▶ freed
 *
 *  Idea: calls and the fabric's callbacks only take notes, in the rail's lists `done` (bulks) and `work`
 *  (endpoints); progress reports them after the fabric has returned. So the layer above may do anything
 *  from an event, close included, without being inside the fabric.
 */
#ifndef FABRIC_BASE_H
#define FABRIC_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/memory/list.h"
#include "core/os/poller.h"
#include "ep_table.h"
#include "transports/module.h"
#include "transports/transport.h"

/* ---- rails ---- */

/** No limit of the fabric's: half of the address space. */
#define FABRIC_BULK_MAX ((uint64_t)1 << 46)

/** Begins each connect message of both modules; more of the head follows, then an address, or a text. */
struct fabric_connect {
    uint32_t magic;
    uint16_t version;
    uint16_t kind; /**< enum fabric_connect_kind */
};
_Static_assert(sizeof(struct fabric_connect) == 8, "wire");

enum fabric_connect_kind { FABRIC_CONNECT_ADDRESS = 1, FABRIC_CONNECT_REFUSED = 2 };

enum {
    FABRIC_CONNECT_MAX =
        4096,            /**< bytes of a connect message (rail_events.connect_send) */
    FABRIC_HEAD_MAX = 64 /**< of its head */
};

struct fabric_rail {
    struct rail base;
    const tryst_host *host;
    struct poller *poller;
    struct poller_source
        source; /**< the fabric's descriptor; fn NULL: nobody waits for it */
    struct ep_table table;
    struct list done; /**< bulks to report; nothing is reported from inside a call */
    struct list work; /**< endpoints with something to do in the next progress */
    uint64_t unauthenticated; /**< messages with a wrong cookie or endpoint id */
    struct fabric_connect
        connect;          /**< begins the module's connect messages (kind: ADDRESS) */
    size_t connect_bytes; /**< of the whole head of one */
    char name[32];        /**< of the interface, or "any interface" */
};

/** A rail of `bytes` bytes, zero but for this part of it; NULL: no memory. Endpoints at once: at most
 *  `eps_max` (ep_table.h). */
void *fabric_rail_new(const struct rail_params *params, const struct transport_ops *ops,
                      size_t bytes, uint32_t eps_max);
void fabric_rail_free(struct fabric_rail *rail);

/** transport_ops.rail_attach: register source.fd with the poller, if the rail has a descriptor. */
tryst_status fabric_rail_attach(struct rail *rail);
void fabric_rail_unwatch(struct fabric_rail *rail);

void fabric_rail_log(const struct fabric_rail *rail, tryst_log_level level,
                     const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/** Is something noted that the next progress has to do? */
static inline bool fabric_rail_is_due(const struct fabric_rail *rail)
{
    return !list_empty(&rail->work) || !list_empty(&rail->done);
}

/** Take out what is in `list`; what is added meanwhile waits for the next call. */
static inline struct list *fabric_take(struct list *taken_p, struct list *list)
{
    list_init(taken_p);
    list_append(taken_p, list);
    return taken_p;
}

/* ---- endpoints ---- */

enum fabric_state {
    FABRIC_OPENING,
    FABRIC_READY,
    FABRIC_BROKEN, /**< refused or failed: waits for ep_close */
    FABRIC_CLOSING
};

/** Why an endpoint is in the rail's work list (bits of fabric_ep.work). */
enum fabric_due {
    FABRIC_DUE_CONNECT = 1, /**< the next step of connecting, if it can be made */
    FABRIC_DUE_FAILED = 2,  /**< say failed, or ready(UNREACHABLE) while opening */
    FABRIC_DUE_CLOSE = 4,
    FABRIC_DUE_PUMP = 8 /**< ofi: records to send, or held bulks to start */
};

struct fabric_ep {
    struct endpoint base;
    struct list_node work_node;
    uint32_t work; /**< enum fabric_due */
    enum fabric_state state;
    bool loopback;
    bool address_sent, heard_sent, heard_seen; /**< connecting */
    uint64_t id, peer_id, cookie;
    uint32_t send_sequence, recv_sequence;
    uint32_t sends_active, recvs_active; /**< bulks in our or the fabric's hands */
    uint32_t unreported;                 /**< bulks of ours in rail->done */
    tryst_status fail_status;
    char text[TRANSPORT_TEXT_MAX];
};

static inline struct fabric_rail *fabric_ep_rail(const struct fabric_ep *ep)
{
    return (struct fabric_rail *)ep->base.rail;
}

/** An endpoint of `bytes` bytes, zero but for this part of it, with an id, and due to connect;
 *  NULL: no memory. */
void *fabric_ep_new(struct fabric_rail *rail, const struct ep_params *params,
                    size_t bytes);
/** Nothing of it is left in the fabric: say closed, and free it. */
void fabric_ep_free(struct fabric_ep *ep);

void fabric_ep_due(struct fabric_ep *ep, enum fabric_due what);

/** The data path is dead. The upper layer learns of it from progress. */
void fabric_ep_fail(struct fabric_ep *ep, tryst_status status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/** Tell the layer above, and the peer if it may still be waiting for us. */
void fabric_ep_failed_say(struct fabric_ep *ep);
/** Connecting is over: say so. */
void fabric_ep_ready_say(struct fabric_ep *ep, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/** False: it is closing already. */
bool fabric_ep_close(struct fabric_ep *ep);

/** ep_message: true when `data` has a head of the module's, and an address follows. What else may come is
 *  dealt with. */
bool fabric_connect_take(struct fabric_ep *ep, const void *data, size_t bytes, int fd);
/** A connect message: a head (rail->connect_bytes), and what follows it, FABRIC_CONNECT_MAX in all. */
tryst_status fabric_connect_send(struct fabric_ep *ep, const void *head, const void *data,
                                 size_t bytes);

/** TRYST_OK when traffic may start; TRYST_AGAIN while `failed` is still to be said (the layer above
 *  hears the reason first); else TRYST_E_PEER. */
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

/** May a bulk be started, with at most `most` of its direction active? */
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

/** The endpoint that a message is for; NULL: none, also when it comes late for one that was closed. */
static inline void *fabric_ep_receiver(struct fabric_rail *rail, uint64_t id,
                                       uint64_t cookie)
{
    struct fabric_ep *ep = ep_table_find(&rail->table, id);
    if (ep && ep->cookie == cookie)
        return ep;
    rail->unauthenticated++;
    return NULL;
}

/** Is this the message that is due? (The order is the fabric's; this proves it.) */
static inline bool fabric_ep_sequence_take(struct fabric_ep *ep, uint32_t sequence)
{
    if (sequence == ep->recv_sequence) {
        ep->recv_sequence++;
        return true;
    }
    fabric_ep_fail(ep, TRYST_E_PROTOCOL, "message %u came when %u was due", sequence,
                   ep->recv_sequence);
    return false;
}

/* ---- bulk ---- */

/** The first part of a bulk's scratch, of both modules. */
struct fabric_bulk {
    struct list_node node; /**< of rail->done; before, the module's own use */
    struct fabric_ep *ep;
    size_t bytes;
    tryst_status status;
    bool is_send;
};

/** It is the fabric's from here on, or about to be: it counts as active. */
static inline void fabric_bulk_begin(struct fabric_ep *ep, struct fabric_bulk *bulk,
                                     bool is_send)
{
    *bulk = (struct fabric_bulk){.ep = ep, .is_send = is_send};
    *(is_send ? &ep->sends_active : &ep->recvs_active) += 1;
}

/** It is not, after all. */
static inline void fabric_bulk_undo(struct fabric_bulk *bulk)
{
    *(bulk->is_send ? &bulk->ep->sends_active : &bulk->ep->recvs_active) -= 1;
}

/** From inside a call or a callback: note it for fabric_bulk_report. */
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

/** Report what has completed; returns how many. */
int fabric_bulk_report(struct fabric_rail *rail);

/* ---- the library's log ---- */

/* Such a library has one log per process, and others may use it beside us. A line that comes while the
 * thread is in a block of FABRIC_LOG_SCOPE (around every call into the library that may log) is that
 * context's; any other is not ours. */

/** The context in whose call this thread is, or NULL. */
extern __thread const tryst_host *fabric_log_host
    __attribute__((tls_model("initial-exec")));

static inline const tryst_host *fabric_log_begin(const tryst_host *host)
{
    const tryst_host *previous = fabric_log_host;
    fabric_log_host = host;
    return previous;
}

static inline void fabric_log_end(const tryst_host **previous)
{
    fabric_log_host = *previous;
}

/** From here to the end of the block, lines of the library are the context's of `host`. */
#define FABRIC_LOG_SCOPE(host)                                                        \
    __attribute__((cleanup(fabric_log_end), unused)) const tryst_host *log_previous = \
        fabric_log_begin(host)

#endif
