/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Endpoints: connecting, failing, closing.
 *
 * Idea: there are two UCP endpoints per pair, one for frames and one for bulk, so that
 * where the fabric is a byte stream, frames never queue behind payload. (The states:
 * fabric_base.h.)
 *
 *   READY: this side has sent CONFIRM, and both HELLOs and CONFIRM have come.
 *   CLOSING: sent bytes leave (FLUSH_LIMIT_NS at most), then both UCP endpoints are
 *   closed by force.
 *
 * Invariant: an endpoint is freed when UCX holds no send, no receive and no slot of it.
 */
#include "ucx_ep.h"

#include <string.h>

#include "transports/signal_guard.h"
#include "ucx_bulk.h"
#include "ucx_frame.h"
#include "ucx_rail.h"

/* How long a close waits for sent bytes to leave (close_start has the reason). */
#define FLUSH_LIMIT_NS 200000000ull
/* A forced close ends within milliseconds (README.md); one that takes longer than this
 * never ends. */
#define CLOSE_LIMIT_NS 3000000000ull

static void opening_begin(struct ucx_ep *ep)
{
    ep->opening = true;
    ep_rail(ep)->opening++;
}

static void opening_end(struct ucx_ep *ep)
{
    ep_rail(ep)->opening -= ep->opening;
    ep->opening = false;
}

/* ---- opening ---- */

tryst_status ucx_ep_open(struct rail *base, const struct ep_params *params,
                         struct endpoint **ep_p)
{
    struct ucx_rail *rail = (struct ucx_rail *)base;
    struct fabric_ep *fabric;
    if (!rail->worker)
        return TRYST_E_UNREACHABLE;
    tryst_status status =
        fabric_ep_new(&rail->fabric, params, sizeof(struct ucx_ep), &fabric);
    if (status != TRYST_OK)
        return status;
    struct ucx_ep *ep = (struct ucx_ep *)fabric;
    ep->slots_free = (1u << UCX_SLOT_COUNT) - 1;
    list_init(&ep->active);
    for (int i = 0; i < UCX_SLOT_COUNT; i++)
        ep->slots[i].ep = ep;
    if (ep->fabric.loopback)
        ep->fabric.peer_id = ep->fabric.id;
    *ep_p = &ep->fabric.base;
    return TRYST_OK;
}

static tryst_status address_send(struct ucx_ep *ep)
{
    struct ucx_rail *rail = ep_rail(ep);
    tryst_status status = TRYST_OK;
    size_t step = FABRIC_CONNECT_MAX - sizeof(struct ucx_connect);
    ep->fabric.address_sent = true;
    if (ep->fabric.loopback)
        return TRYST_OK;
    for (size_t at = 0; status == TRYST_OK && at < rail->address_bytes; at += step) {
        const struct ucx_connect head = {.connect = rail->fabric.connect,
                                         .total_bytes = (uint32_t)rail->address_bytes,
                                         .offset_bytes = (uint32_t)at,
                                         .ep_id = ep->fabric.id};
        size_t left = rail->address_bytes - at;
        status = fabric_connect_send(&ep->fabric, &head,
                                     (const unsigned char *)rail->address + at,
                                     left < step ? left : step);
    }
    return status;
}

/* Check and store one part of the peer's address. True if the address is now complete. */
static bool address_part_append(struct ucx_ep *ep, const struct ucx_connect *head,
                                const void *data, size_t bytes)
{
    if (head->offset_bytes == 0 && !ep->peer_address && head->total_bytes > 0 &&
        head->total_bytes <= UCX_ADDRESS_MAX) {
        ep->peer_address = ep_rail(ep)->fabric.host->alloc(head->total_bytes);
        ep->peer_address_total = head->total_bytes;
        ep->fabric.peer_id = head->ep_id;
    }
    if (!ep->peer_address || head->ep_id != ep->fabric.peer_id ||
        head->total_bytes != ep->peer_address_total ||
        head->offset_bytes != ep->peer_address_bytes || bytes == 0 ||
        bytes > head->total_bytes - head->offset_bytes) {
        fabric_ep_fail(&ep->fabric, TRYST_E_PROTOCOL,
                       "protocol error: a part of the peer's address does not fit");
        return false;
    }
    memcpy(ep->peer_address + head->offset_bytes, data, bytes);
    ep->peer_address_bytes += (uint32_t)bytes;
    return ep->peer_address_bytes == ep->peer_address_total;
}

void ucx_ep_message(struct endpoint *base, const void *data, size_t bytes, int fd)
{
    struct ucx_ep *ep = (struct ucx_ep *)base;
    struct ucx_connect head;
    if (!fabric_connect_handle(&ep->fabric, data, bytes, fd))
        return;
    memcpy(&head, data, sizeof head);
    if (address_part_append(ep, &head, (const char *)data + sizeof head,
                            bytes - sizeof head))
        fabric_ep_due(&ep->fabric, FABRIC_DUE_CONNECT);
}

static void ucp_failed(void *arg, ucp_ep_h ucp_ep, ucs_status_t status)
{
    struct ucx_ep *ep = arg;
    (void)ucp_ep;
    fabric_ep_fail(&ep->fabric, TRYST_E_PEER, "UCX: %s", ucs_status_string(status));
}

static ucs_status_t ucp_ep_open(struct ucx_ep *ep, ucp_ep_h *ucp_ep_p)
{
    struct ucx_rail *rail = ep_rail(ep);
    const ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                      UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_USER_DATA,
        .address =
            ep->fabric.loopback ? rail->address : (const ucp_address_t *)ep->peer_address,
        .err_mode = UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = {.cb = ucp_failed, .arg = ep},
        .user_data = ep,
    };
    return ucp_ep_create(rail->worker, &params, ucp_ep_p);
}

/* Create the UCP endpoints, frames first on both sides: UCX pairs the endpoints of two
 * workers in order of creation. */
static void connect_start(struct ucx_ep *ep)
{
    sigset_t mask;
    ucs_status_t status;
    tryst_status sent;
    signal_mask_begin(&mask);
    status = ucp_ep_open(ep, &ep->frames);
    if (status == UCS_OK)
        status = ucp_ep_open(ep, &ep->bulk);
    signal_mask_end(&mask);
    if (status != UCS_OK) {
        fabric_ep_fail(&ep->fabric, TRYST_E_UNREACHABLE, "UCX cannot connect on %s: %s",
                       ep_rail(ep)->fabric.name, ucs_status_string(status));
        return;
    }
    sent = ucx_hello_send(ep, ep->frames, UCX_AM_HELLO);
    if (sent == TRYST_OK)
        sent = ucx_hello_send(ep, ep->bulk, UCX_AM_HELLO_BULK);
    if (sent != TRYST_OK)
        fabric_ep_fail(&ep->fabric, sent, "UCX cannot send HELLO: out of memory");
}

static bool hellos_came(const struct ucx_ep *ep)
{
    uint8_t hellos = UCX_SEEN_HELLO | UCX_SEEN_HELLO_BULK;
    return (ep->seen & hellos) == hellos;
}

/* True if the peer's address is complete, and it is this side's turn to create its UCP
 * endpoints (ucx_wire.h). */
static bool may_start(const struct ucx_ep *ep)
{
    bool known =
        ep->fabric.loopback ||
        (ep->peer_address_total > 0 && ep->peer_address_bytes == ep->peer_address_total);
    return known && !ep->frames &&
           (ep->fabric.id <= ep->fabric.peer_id || hellos_came(ep));
}

static void connect_advance(struct ucx_ep *ep)
{
    if (ep->fabric.state != FABRIC_OPENING)
        return;
    /* The check is made before the peer gets the address, and again before this side
     * connects. */
    if ((!ep->fabric.address_sent || may_start(ep)) && !ucx_rail_has_room(ep_rail(ep))) {
        fabric_ep_fail(&ep->fabric, TRYST_E_UNREACHABLE,
                       "cannot connect by UCX: few descriptors are left, and UCX aborts "
                       "without; raise the limit (ulimit -n)");
        return;
    }
    if (!ep->opening)
        opening_begin(ep);
    if (!ep->fabric.address_sent && address_send(ep) != TRYST_OK) {
        fabric_ep_fail(&ep->fabric, TRYST_E_PEER, "the link closed while connecting");
        return;
    }
    if (may_start(ep))
        connect_start(ep);
    /* failed, or it is the peer's turn */
    if (ep->fabric.state != FABRIC_OPENING || !ep->bulk)
        return;
    if (hellos_came(ep) && !ep->fabric.confirm_sent && ucx_sends_left(ep) &&
        ucx_confirm_send(ep) == TRYST_OK)
        ep->fabric.confirm_sent = true;
    if (ep->fabric.confirm_sent && ep->fabric.confirm_seen)
        ucx_ep_ready_report(ep);
}

void ucx_ep_ready_report(struct ucx_ep *ep)
{
    opening_end(ep);
    fabric_ep_ready_report(&ep->fabric, "ucx %s on %s", ucp_get_version_string(),
                           ep_rail(ep)->fabric.name);
}

/* ---- failing and closing ---- */

void ucx_ep_close(struct endpoint *base)
{
    struct ucx_ep *ep = (struct ucx_ep *)base;
    bool was_ready = ep->fabric.state == FABRIC_READY;
    if (!fabric_ep_close(&ep->fabric))
        return;
    ep->flush_wanted = was_ready && !ep_rail(ep)->direct;
    opening_end(ep);
}

/* Count one flush or close less. */
static void counted_completed(void *request, ucs_status_t status, void *user_data)
{
    uint32_t *active = user_data;
    (void)status; /* an error means that the connection broke or was closed by force */
    ucp_request_free(request);
    *active -= 1;
}

static ucp_request_param_t counted_param(uint32_t *active)
{
    return (ucp_request_param_t){
        .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK |
                        UCP_OP_ATTR_FIELD_USER_DATA,
        .cb.send = counted_completed,
        .user_data = active,
    };
}

static void ucp_ep_drop(struct ucx_ep *ep, ucp_ep_h *ucp_ep)
{
    ucp_request_param_t param = counted_param(&ep->closes_active);
    param.flags = UCP_EP_CLOSE_FLAG_FORCE;
    if (*ucp_ep && UCS_PTR_IS_PTR(ucp_ep_close_nbx(*ucp_ep, &param)))
        ep->closes_active++;
    *ucp_ep = NULL;
}

static void flush_start(struct ucx_ep *ep, ucp_ep_h ucp_ep)
{
    const ucp_request_param_t param = counted_param(&ep->flushes_active);
    if (ucp_ep && UCS_PTR_IS_PTR(ucp_ep_flush_nbx(ucp_ep, &param)))
        ep->flushes_active++;
}

/* Start closing. If both ends of a TCP connection close while each still has bytes to
 * write, libuct uses a connection that it has just freed (README.md). So sent bytes leave
 * first, unless the peer does not take them. */
static void close_start(struct ucx_ep *ep)
{
    struct ucx_rail *rail = ep_rail(ep);
    ep->flush_until_ns = rail->fabric.host->now_ns(rail->fabric.host) + FLUSH_LIMIT_NS;
    /* first, so that no unmatched receive becomes matched meanwhile */
    ucx_bulk_cancel_all(ep);
    if (!ep->flush_wanted)
        return;
    flush_start(ep, ep->bulk);
    flush_start(ep, ep->frames);
}

static void close_force(struct ucx_ep *ep, uint64_t now_ns)
{
    ep->close_at_ns = now_ns + CLOSE_LIMIT_NS;
    ucp_ep_drop(ep, &ep->bulk);
    ucp_ep_drop(ep, &ep->frames);
}

void ucx_ep_abandon(struct ucx_ep *ep)
{
    ep->frames = ep->bulk = NULL;
    ep->flushes_active = ep->closes_active = 0;
    ep->slots_free = (1u << UCX_SLOT_COUNT) - 1;
    ucx_bulk_abandon_all(ep, ep->fabric.state == FABRIC_CLOSING ? TRYST_E_CANCELED
                                                                : TRYST_E_PEER);
    fabric_ep_fail(&ep->fabric, TRYST_E_PEER,
                   "the rail on %s was given up: UCX did not release a closed endpoint",
                   ep_rail(ep)->fabric.name);
}

static bool close_ended(const struct ucx_ep *ep)
{
    return ep->close_at_ns && ep->fabric.sends_active == 0 &&
           ep->fabric.recvs_active == 0 && ep->fabric.unreported == 0 &&
           ep->flushes_active == 0 && ep->closes_active == 0 && ucx_sends_left(ep);
}

static void worker_give_up(struct ucx_ep *ep)
{
    fabric_rail_log(&ep_rail(ep)->fabric, TRYST_LOG_ERROR,
                    "UCX does not release a closed endpoint (%u sends, %u receives, %u "
                    "flushes, %u closes, slots %x); destroying the worker",
                    ep->fabric.sends_active, ep->fabric.recvs_active, ep->flushes_active,
                    ep->closes_active, ep->slots_free);
    ucx_rail_abandon(ep_rail(ep));
}

static void close_go_on(struct ucx_ep *ep)
{
    struct ucx_rail *rail = ep_rail(ep);
    uint64_t now_ns = rail->fabric.host->now_ns(rail->fabric.host);
    if (!ep->flush_until_ns)
        close_start(ep);
    if (!ep->close_at_ns && (!ep->flushes_active || now_ns > ep->flush_until_ns))
        close_force(ep, now_ns);
    if (!close_ended(ep)) {
        if (rail->worker && ep->close_at_ns && now_ns > ep->close_at_ns)
            worker_give_up(ep);
        fabric_ep_due(&ep->fabric, FABRIC_DUE_CLOSE);
        return;
    }
    rail->fabric.host->free(ep->peer_address);
    fabric_ep_free(&ep->fabric);
}

void ucx_ep_work(struct ucx_ep *ep)
{
    uint32_t work = ep->fabric.work;
    ep->fabric.work = 0;
    if (work & FABRIC_DUE_CLOSE) {
        close_go_on(ep);
        return;
    }
    if (work & FABRIC_DUE_CONNECT)
        connect_advance(ep);
    if (work & FABRIC_DUE_FAILED && ep->fabric.state == FABRIC_BROKEN) {
        opening_end(ep);
        fabric_ep_failure_report(&ep->fabric);
    }
}
