/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bulk: tagged messages between two fabric endpoints that belong to this pair of ranks
 * alone.
 *
 * Idea: the receiver announces each receive (POSTED), so the sender has the list of
 * posted receives and their sizes. The fabric never gets a message without a receive, or
 * one that does not fit, so no provider's treatment of those matters. Closing by force is
 * closing the pair's own fabric endpoint, which drops what is outstanding, whatever the
 * peer does.
 *
 *   receive:  posted + POSTED ── data ──▶ done
 *                │ bulk_cancel: REVOKE
 *                ├─ REVOKED: fi_cancel ──▶ CANCELED
 *                └─ STARTED: data ──▶ done
 *
 *   send:     held (asked) ── POSTED ──┐
 *                │ posted already      ▼
 *                └────────────────▶ (room?) fi_tsend ──▶ done
 *             NOT_POSTED or too long: done, unsent
 *
 * Invariant: ep->active holds what the fabric may read or write; each bulk that was taken
 * is in exactly one of ep->active, ep->held and rail->fabric.done.
 */
#include "ofi_bulk.h"

#include <string.h>

#include "ofi_ep.h"
#include "ofi_frame.h"
#include "ofi_memory.h"
#include "ofi_rail.h"
#include "transports/signal_guard.h"

/* The greeting is matched before any bulk, so a bulk may have the same tag. */
#define GREETING_TAG 0u
/* How often ofi_bulk_watch checks for bulk connections that do not come. */
#define WATCH_NS 500000000ull

static uint64_t fabric_tag(const struct ofi_rail *rail, uint64_t receiver_ep_id,
                           uint64_t tag)
{
    return (receiver_ep_id & rail->slot_mask) << OFI_TAG_BITS | tag;
}

/* ---- completing ---- */

/* Complete a bulk, from inside a call or from progress. */
static void op_complete(struct ofi_op *op, tryst_status status, size_t bytes)
{
    struct ofi_bulk *private = bulk_private(op->bulk);
    private->op = NULL;
    ofi_op_put(ep_rail(op->ep), op);
    fabric_bulk_complete(&private->fabric, status, bytes);
}

/* Get a hint at missing descriptors for a message, or "": libfabric reports EIO where it
 * has found no descriptor. */
static const char *few_left(const struct ofi_rail *rail)
{
    enum { ENDPOINT_DESCRIPTORS = 4 };
    return rail->fabric.host->descriptors_left(ENDPOINT_DESCRIPTORS)
               ? ""
               : "; few descriptors are left (raise the limit, ulimit -n)";
}

/* Handle the greeting's completion: bulk may be sent from now on. On an error the
 * endpoint fails. */
static void greeting_completed(struct ofi_op *op, int error)
{
    struct ofi_ep *ep = op->ep;
    bool canceled = op->canceled;
    ofi_op_put(ep_rail(ep), op);
    if (error && !canceled)
        fabric_ep_fail(&ep->fabric, TRYST_E_PEER, "cannot connect for bulk: %s%s",
                       fi_strerror(error), few_left(ep_rail(ep)));
    if (error || ep->bulk_reached)
        return;
    ep->bulk_reached = true;
    if (ep->fabric.state == FABRIC_READY)
        fabric_ep_due(&ep->fabric, FABRIC_DUE_PUMP);
}

void ofi_bulk_completed(struct ofi_op *op, int error, size_t bytes)
{
    struct ofi_ep *ep = op->ep;
    bool is_send = op->work.what == OFI_WHAT_SEND;
    tryst_status status = TRYST_OK;
    if (op->greeting) {
        greeting_completed(op, error);
        return;
    }
    if (op->canceled && error == FI_ECANCELED)
        status = op->too_long ? TRYST_E_MISMATCH : TRYST_E_CANCELED;
    else if (ep->fabric.state == FABRIC_CLOSING && error)
        status = TRYST_E_CANCELED;
    else if (error == FI_ETRUNC)
        status = TRYST_E_MISMATCH;
    else if (error)
        status = TRYST_E_PEER;
    if (status == TRYST_E_PEER)
        fabric_ep_fail(&ep->fabric, TRYST_E_PEER, "a bulk could not be %s: %s",
                       is_send ? "sent" : "received", fi_strerror(error));
    op_complete(op, status, status != TRYST_OK ? 0 : is_send ? op->bulk->bytes : bytes);
}

/* Withdraw a receive by fi_cancel: its message will not come, or is not wanted. The
 * completion comes through the queue. */
static void recv_withdraw(struct ofi_op *op)
{
    struct ofi_ep *ep = op->ep;
    if (op->canceled)
        return;
    op->canceled = true;
    (void)fi_cancel(&ep->bulk->fid, &op->work.context);
}

void ofi_bulk_cancel_all(struct ofi_ep *ep)
{
    list_for_each_safe (&ep->active, node, after) {
        struct ofi_op *op = container_of(node, struct ofi_op, node);
        if (op->work.what == OFI_WHAT_RECV)
            recv_withdraw(op);
    }
}

void ofi_bulk_abandon(struct ofi_ep *ep)
{
    struct ofi_rail *rail = ep_rail(ep);
    list_for_each_safe (&ep->active, node, after) {
        struct ofi_op *op = container_of(node, struct ofi_op, node);
        rail->live--;
        if (op->greeting)
            ofi_op_put(rail, op);
        else
            op_complete(op, TRYST_E_CANCELED, 0);
    }
    list_for_each_safe (&ep->held, node, after)
        op_complete(container_of(node, struct ofi_op, node), TRYST_E_CANCELED, 0);
}

/* ---- starting ---- */

tryst_status ofi_bulk_open(struct ofi_ep *ep)
{
    struct ofi_rail *rail = ep_rail(ep);
    struct signal_guard guard;
    int rc;
    if (ep->bulk)
        return TRYST_OK;
    signal_guard_begin(&guard); /* shm installs handlers here */
    rc = ofi_endpoint_open(rail, &ep->bulk);
    (void)signal_guard_end(&guard);
    if (rc != 0) {
        ep->bulk = NULL;
        fabric_ep_fail(&ep->fabric, rc == -FI_ENOMEM ? TRYST_E_NOMEM : TRYST_E_SYSTEM,
                       "cannot open an endpoint for bulk on %s: %s%s", rail->fabric.name,
                       fi_strerror(-rc), few_left(rail));
        return fabric_ep_usable(&ep->fabric);
    }
    ep->place_due = true;
    ep->greeted = ep->fabric.loopback;
    ep->bulk_reached = ep->initiator;
    ep->bulk_at_ns = rail->fabric.host->now_ns(rail->fabric.host);
    if (!ep->bulk_reached && !rail->watch_at_ns)
        rail->watch_at_ns = ep->bulk_at_ns + WATCH_NS;
    fabric_ep_due(&ep->fabric, FABRIC_DUE_PUMP);
    return TRYST_OK;
}

static struct ofi_op *op_start(struct ofi_ep *ep, struct bulk *bulk, enum ofi_what what)
{
    struct ofi_op *op = ofi_op_get(ep_rail(ep));
    if (!op)
        return NULL;
    op->work.what = what;
    op->ep = ep;
    op->bulk = bulk;
    bulk_private(bulk)->op = op;
    return op;
}

/* Handle the result of starting an operation. TRYST_OK: the fabric has it; TRYST_AGAIN:
 * the fabric has no room; on other errors the endpoint fails. */
static tryst_status op_started(struct ofi_op *op, ssize_t rc)
{
    struct ofi_ep *ep = op->ep;
    if (rc == 0) {
        (void)list_remove(&op->node);
        list_push_back(&ep->active, &op->node);
        ep_rail(ep)->live++;
        return TRYST_OK;
    }
    if (rc == -FI_EAGAIN || rc == -FI_ENOMEM)
        return TRYST_AGAIN;
    fabric_ep_fail(&ep->fabric, TRYST_E_PEER, "libfabric refused a bulk: %s",
                   fi_strerror((int)-rc));
    return fabric_ep_usable(&ep->fabric);
}

/* Fail each endpoint that has waited longer than the connect time-out for the initiator's
 * connection, if this process has no descriptor left to accept it: libfabric leaves such
 * a connection in the queue and reports it to neither side. */
void ofi_bulk_watch(struct ofi_rail *rail)
{
    uint64_t now_ns = rail->fabric.host->now_ns(rail->fabric.host);
    uint64_t limit_ns =
        rail->fabric.host->config_number(rail->fabric.host, "connect_timeout");
    bool any = false;
    if (now_ns < rail->watch_at_ns)
        return;
    for (uint32_t i = 0; i < rail->fabric.table.count; i++) {
        struct ofi_ep *ep = ep_table_at(&rail->fabric.table, i);
        if (!ep || ep->fabric.state != FABRIC_READY || !ep->bulk || ep->bulk_reached)
            continue;
        any = true;
        if (now_ns - ep->bulk_at_ns > limit_ns && !rail->fabric.host->descriptors_left(1))
            fabric_ep_fail(&ep->fabric, TRYST_E_PEER,
                           "cannot accept its bulk connection: no descriptor left; raise "
                           "the limit (ulimit -n)");
    }
    rail->watch_at_ns = any ? now_ns + WATCH_NS : 0;
}

tryst_status ofi_bulk_greet(struct ofi_ep *ep)
{
    struct ofi_rail *rail = ep_rail(ep);
    struct ofi_op *op;
    tryst_status status;
    ssize_t rc;
    if (ep->greeted)
        return TRYST_OK;
    if (rail->live >= OFI_CQ_SIZE || !(op = ofi_op_get(rail)))
        return TRYST_AGAIN;
    op->ep = ep;
    op->greeting = true;
    op->work.what = ep->initiator ? OFI_WHAT_SEND : OFI_WHAT_RECV;
    if (ep->initiator)
        rc = fi_tsend(ep->bulk, NULL, 0, NULL, ep->peer_bulk,
                      fabric_tag(rail, ep->fabric.peer_id, GREETING_TAG),
                      &op->work.context);
    else
        rc =
            fi_trecv(ep->bulk, NULL, 0, NULL, FI_ADDR_UNSPEC,
                     fabric_tag(rail, ep->fabric.id, GREETING_TAG), 0, &op->work.context);
    status = op_started(op, rc);
    if (status == TRYST_OK)
        ep->greeted = true;
    else
        ofi_op_put(rail, op);
    return status;
}

static tryst_status recv_start(struct ofi_ep *ep, struct bulk *bulk)
{
    struct ofi_rail *rail = ep_rail(ep);
    struct ofi_op *op;
    void *desc;
    tryst_status status = ofi_bulk_open(ep);
    /* the greeting's receive comes first */
    if (status == TRYST_OK && !ep->initiator)
        status = ofi_bulk_greet(ep);
    if (status != TRYST_OK)
        return status;
    op = op_start(ep, bulk, OFI_WHAT_RECV);
    if (!op)
        return TRYST_AGAIN;
    status = ofi_op_desc(op, &desc);
    if (status == TRYST_OK)
        status = op_started(op, fi_trecv(ep->bulk, bulk->data, bulk->bytes, desc,
                                         FI_ADDR_UNSPEC,
                                         fabric_tag(rail, ep->fabric.id, bulk->tag), 0,
                                         &op->work.context));
    else if (status != TRYST_E_UNSUPPORTED)
        status = TRYST_AGAIN;
    if (status != TRYST_OK) {
        ofi_op_put(rail, op);
        return status;
    }
    fabric_bulk_begin(&ep->fabric, &bulk_private(bulk)->fabric, false);
    ofi_record_add(ep, OFI_POSTED, bulk->tag, bulk->bytes);
    return TRYST_OK;
}

tryst_status ofi_bulk_recv(struct endpoint *base, struct bulk *bulk)
{
    struct ofi_ep *ep = (struct ofi_ep *)base;
    tryst_status status = fabric_bulk_check(&ep->fabric, bulk, false, OFI_POSTED_MAX);
    if (status != TRYST_OK)
        return status;
    if (ep_rail(ep)->live >= OFI_CQ_SIZE)
        return TRYST_AGAIN;
    FABRIC_LOG_SCOPE(ep_rail(ep)->fabric.host);
    return recv_start(ep, bulk);
}

/* Give a matched send to the fabric. TRYST_AGAIN: the fabric has no room, or bulk may not
 * be sent yet. */
static tryst_status send_push(struct ofi_op *op)
{
    struct ofi_ep *ep = op->ep;
    struct ofi_rail *rail = ep_rail(ep);
    struct bulk *bulk = op->bulk;
    void *desc;
    tryst_status status;
    status = ofi_bulk_open(ep);
    if (status != TRYST_OK)
        return status;
    if (rail->live >= OFI_CQ_SIZE || !ep->bulk_reached)
        return TRYST_AGAIN;
    status = ofi_bulk_greet(ep); /* the greeting comes first */
    if (status != TRYST_OK)
        return status;
    if (ofi_op_desc(op, &desc) != TRYST_OK)
        return TRYST_AGAIN;
    return op_started(op, fi_tsend(ep->bulk, bulk->data, bulk->bytes, desc, ep->peer_bulk,
                                   fabric_tag(rail, ep->fabric.peer_id, bulk->tag),
                                   &op->work.context));
}

/* Register device memory before the send is announced. TRYST_E_UNSUPPORTED: it cannot be
 * registered, so the caller must send the bytes from host memory. */
static tryst_status device_send_check(struct ofi_op *op)
{
    void *desc;
    tryst_status status = op->bulk->memory ? ofi_op_desc(op, &desc) : TRYST_OK;
    if (status != TRYST_OK)
        ofi_op_put(ep_rail(op->ep), op);
    return status;
}

/* Match a send with its receive, which takes `room` bytes. */
static void send_match(struct ofi_op *op, uint64_t room)
{
    struct ofi_ep *ep = op->ep;
    op->asked = false;
    if (op->bulk->bytes > room) {
        ofi_record_add(ep, OFI_TOO_LONG, op->bulk->tag, op->bulk->bytes);
        op_complete(op, TRYST_OK, op->bulk->bytes);
    } else if (send_push(op) != TRYST_OK) {
        fabric_ep_due(&ep->fabric, FABRIC_DUE_PUMP); /* the send stays held */
    }
}

static void send_begin_bulk(struct ofi_ep *ep, struct ofi_op *op)
{
    uint64_t room;
    fabric_bulk_begin(&ep->fabric, &bulk_private(op->bulk)->fabric, true);
    list_push_back(&ep->held, &op->node);
    if (ofi_posted_remove(&ep->posted, op->bulk->tag, &room)) {
        send_match(op, room);
    } else {
        op->asked = true;
        ofi_record_add(ep, OFI_QUERY, op->bulk->tag, op->number);
    }
}

tryst_status ofi_bulk_send(struct endpoint *base, struct bulk *bulk)
{
    struct ofi_ep *ep = (struct ofi_ep *)base;
    struct ofi_op *op;
    tryst_status status = fabric_bulk_check(&ep->fabric, bulk, true, OFI_SENDS_MAX);
    if (status != TRYST_OK)
        return status;
    if (!(op = op_start(ep, bulk, OFI_WHAT_SEND)))
        return TRYST_AGAIN;
    FABRIC_LOG_SCOPE(ep_rail(ep)->fabric.host);
    status = device_send_check(op);
    if (status == TRYST_OK)
        send_begin_bulk(ep, op);
    return status;
}

tryst_status ofi_held_start(struct ofi_ep *ep)
{
    tryst_status status = TRYST_OK;
    if (ep->bulk && ep->peer_bulk != FI_ADDR_UNSPEC)
        status = ofi_bulk_greet(ep);
    if (status != TRYST_OK)
        return status;
    list_for_each_safe (&ep->held, node, after) {
        struct ofi_op *op = container_of(node, struct ofi_op, node);
        if (!op->asked && (status = send_push(op)) != TRYST_OK)
            return status;
    }
    return status;
}

/* ---- cancelling ---- */

void ofi_bulk_cancel(struct endpoint *base, struct bulk *bulk)
{
    struct ofi_ep *ep = (struct ofi_ep *)base;
    struct ofi_op *op = bulk_private(bulk)->op;
    /* completed, not a receive, or being withdrawn already */
    if (!op || op->work.what != OFI_WHAT_RECV || op->revoked)
        return;
    op->revoked = true;
    if (ep->fabric.state == FABRIC_READY)
        ofi_record_add(ep, OFI_REVOKE, bulk->tag, op->number);
}

/* ---- the peer's records ---- */

static struct ofi_op *recv_find(struct ofi_ep *ep, uint64_t tag)
{
    list_for_each_safe (&ep->active, node, after) {
        struct ofi_op *op = container_of(node, struct ofi_op, node);
        if (op->work.what == OFI_WHAT_RECV && !op->greeting && op->bulk->tag == tag)
            return op;
    }
    return NULL;
}

static struct ofi_op *queried_find(struct ofi_ep *ep, uint64_t tag)
{
    list_for_each_safe (&ep->held, node, after) {
        struct ofi_op *op = container_of(node, struct ofi_op, node);
        if (op->asked && op->bulk->tag == tag)
            return op;
    }
    return NULL;
}

static void posted_handle(struct ofi_ep *ep, uint64_t tag, uint64_t room)
{
    struct ofi_op *op = ep->fabric.sends_active ? queried_find(ep, tag) : NULL;
    tryst_status status = TRYST_OK;
    if (ep->peer_bulk == FI_ADDR_UNSPEC)
        fabric_ep_fail(
            &ep->fabric, TRYST_E_PROTOCOL,
            "protocol error: a receive was announced before the bulk endpoint's address");
    else if (op)
        send_match(op, room);
    else
        status = ofi_posted_add(ep_rail(ep)->fabric.host, &ep->posted, tag, room);
    if (status != TRYST_OK)
        fabric_ep_fail(&ep->fabric, status,
                       "cannot add an announced receive: too many, or out of memory");
}

static void revoke_handle(struct ofi_ep *ep, uint64_t tag, uint64_t number)
{
    uint64_t room;
    bool withdrawn = ofi_posted_remove(&ep->posted, tag, &room);
    ofi_record_add(ep, withdrawn ? OFI_REVOKED : OFI_STARTED, tag, number);
}

/* Answer the sender's QUERY. If the receive has completed by now, the sender ignores
 * NOT_POSTED. */
static void query_handle(struct ofi_ep *ep, uint64_t tag, uint64_t number)
{
    struct ofi_op *op = recv_find(ep, tag);
    if (!op || op->canceled)
        ofi_record_add(ep, OFI_NOT_POSTED, tag, number);
}

static void not_posted_handle(struct ofi_ep *ep, uint64_t tag, uint64_t number)
{
    struct ofi_op *op = queried_find(ep, tag);
    if (!op || op->number != number)
        return;
    ofi_record_add(ep, OFI_DROPPED, tag, op->bulk->bytes);
    op_complete(op, TRYST_OK, op->bulk->bytes);
}

void ofi_bulk_record(struct ofi_ep *ep, const struct ofi_record *record)
{
    uint64_t tag = ofi_record_tag(record);
    struct ofi_op *op = NULL;
    switch (ofi_record_kind(record)) {
    case OFI_POSTED: posted_handle(ep, tag, record->value); break;
    case OFI_REVOKE: revoke_handle(ep, tag, record->value); break;
    case OFI_QUERY: query_handle(ep, tag, record->value); break;
    case OFI_NOT_POSTED: not_posted_handle(ep, tag, record->value); break;
    case OFI_DROPPED:
        ep->fabric.base.rail->events->unexpected(&ep->fabric.base, tag,
                                                 (size_t)record->value);
        break;
    case OFI_STARTED: break; /* the data comes, or TOO_LONG has come */
    case OFI_REVOKED:
        op = recv_find(ep, tag);
        if (op && op->revoked && op->number == record->value)
            recv_withdraw(op);
        break;
    case OFI_TOO_LONG:
        op = recv_find(ep, tag);
        if (op) {
            op->too_long = true;
            recv_withdraw(op);
        }
        break;
    default:
        fabric_ep_fail(&ep->fabric, TRYST_E_PROTOCOL, "protocol error: unknown record %u",
                       ofi_record_kind(record));
        break;
    }
}
