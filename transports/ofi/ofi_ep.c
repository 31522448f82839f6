/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Endpoints: connecting, failing, closing.
 *
 * Idea: messages of all pairs go through the rail's one fabric endpoint and touch only
 * the rail's own packets. Bulk goes through a fabric endpoint of the pair's own: closing
 * that endpoint returns the caller's memory at once, whatever state the peer is in. (The
 * states: fabric_base.h.)
 *
 * READY: this side has sent CONFIRM, and the peer's HELLO and CONFIRM have come.
 * Invariant: an endpoint is freed when no bulk of it is left, here or in the fabric.
 */
#include "ofi_ep.h"

#include <stdio.h>
#include <string.h>

#include "ofi_bulk.h"
#include "ofi_choose.h"
#include "ofi_frame.h"
#include "ofi_memory.h"
#include "ofi_rail.h"
#include "ofi_sockets.h"

/* ---- opening ---- */

tryst_status ofi_ep_open(struct rail *base, const struct ep_params *params,
                         struct endpoint **ep_p)
{
    struct ofi_rail *rail = (struct ofi_rail *)base;
    struct fabric_ep *fabric;
    tryst_status status =
        fabric_ep_new(&rail->fabric, params, sizeof(struct ofi_ep), &fabric);
    if (status != TRYST_OK)
        return status;
    struct ofi_ep *ep = (struct ofi_ep *)fabric;
    ep->initiator = params->initiator || params->loopback;
    ep->peer_messages = ep->peer_bulk = FI_ADDR_UNSPEC;
    list_init(&ep->packets);
    list_init(&ep->active);
    list_init(&ep->held);
    *ep_p = &ep->fabric.base;
    return TRYST_OK;
}

static tryst_status address_send(struct ofi_ep *ep)
{
    struct ofi_rail *rail = ep_rail(ep);
    struct ofi_connect head = {.connect = rail->fabric.connect, .ep_id = ep->fabric.id};
    (void)snprintf(head.provider, sizeof head.provider, "%s",
                   rail->info->fabric_attr->prov_name);
    return fabric_connect_send(&ep->fabric, &head, rail->address, rail->address_bytes);
}

bool ofi_address_insert(struct ofi_ep *ep, const void *data, size_t bytes,
                        fi_addr_t *peer_p)
{
    struct ofi_rail *rail = ep_rail(ep);
    unsigned char address[OFI_ADDRESS_MAX] = {0};
    if (*peer_p != FI_ADDR_UNSPEC || bytes == 0 || bytes > sizeof address) {
        fabric_ep_fail(&ep->fabric, TRYST_E_PROTOCOL,
                       "protocol error: an address of %zu bytes, or a second one", bytes);
        return false;
    }
    memcpy(address, data, bytes);
    if (fi_av_insert(rail->av, address, 1, peer_p, 0, NULL) == 1)
        return true;
    *peer_p = FI_ADDR_UNSPEC;
    fabric_ep_fail(&ep->fabric, TRYST_E_PROTOCOL, "%.31s refused the peer's address",
                   rail->info->fabric_attr->prov_name);
    return false;
}

static void peer_address_insert(struct ofi_ep *ep, const struct ofi_connect *head,
                                const void *data, size_t bytes)
{
    const char *provider = ep_rail(ep)->info->fabric_attr->prov_name;
    if (strncmp(head->provider, provider, sizeof head->provider) != 0) {
        fabric_ep_fail(&ep->fabric, TRYST_E_UNREACHABLE,
                       "libfabric's providers differ, %.31s here and %.31s there: set "
                       "FI_PROVIDER to one value on all ranks, or install one version of "
                       "libfabric",
                       provider, head->provider);
        return;
    }
    if (!ofi_address_insert(ep, data, bytes, &ep->peer_messages))
        return;
    ep->fabric.peer_id = head->ep_id;
    fabric_ep_due(&ep->fabric, FABRIC_DUE_CONNECT);
}

void ofi_ep_message(struct endpoint *base, const void *data, size_t bytes, int fd)
{
    struct ofi_ep *ep = (struct ofi_ep *)base;
    struct ofi_connect head;
    if (!fabric_connect_handle(&ep->fabric, data, bytes, fd))
        return;
    memcpy(&head, data, sizeof head);
    head.provider[sizeof head.provider - 1] = '\0';
    FABRIC_LOG_SCOPE(ep_rail(ep)->fabric.host);
    peer_address_insert(ep, &head, (const char *)data + sizeof head, bytes - sizeof head);
}

static void loopback_start(struct ofi_ep *ep)
{
    struct ofi_rail *rail = ep_rail(ep);
    ep->fabric.peer_id = ep->fabric.id;
    ep->fabric.address_sent = true;
    (void)ofi_address_insert(ep, rail->address, rail->address_bytes, &ep->peer_messages);
}

/* Advance the connection. TRYST_AGAIN: the fabric has no room for a message
 * now; try later. */
static tryst_status connect_advance(struct ofi_ep *ep)
{
    tryst_status status = TRYST_OK;
    if (ep->fabric.loopback && !ep->fabric.address_sent)
        loopback_start(ep);
    if (!ep->fabric.address_sent) {
        ep->fabric.address_sent = true;
        if (address_send(ep) != TRYST_OK)
            fabric_ep_fail(&ep->fabric, TRYST_E_PEER, "the link closed while connecting");
    }
    if (ep->fabric.state != FABRIC_OPENING || ep->peer_messages == FI_ADDR_UNSPEC)
        return TRYST_OK;
    if (!ep->hello_sent && (ep->initiator || ep->hello_seen)) {
        status = ofi_message_send(ep, OFI_HELLO, NULL, 0);
        ep->hello_sent = status == TRYST_OK;
    }
    if (ep->hello_sent && ep->hello_seen && !ep->fabric.confirm_sent) {
        status = ofi_message_send(ep, OFI_CONFIRM, NULL, 0);
        ep->fabric.confirm_sent = status == TRYST_OK;
    }
    if (ep->fabric.state == FABRIC_OPENING && ep->fabric.confirm_sent &&
        ep->fabric.confirm_seen)
        ofi_ep_ready_report(ep);
    return status == TRYST_AGAIN ? TRYST_AGAIN : TRYST_OK;
}

void ofi_ep_ready_report(struct ofi_ep *ep)
{
    struct ofi_rail *rail = ep_rail(ep);
    uint32_t version = fi_version();
    fabric_ep_ready_report(&ep->fabric, "libfabric %u.%u, %s on %s%s", FI_MAJOR(version),
                           FI_MINOR(version), rail->info->fabric_attr->prov_name,
                           rail->fabric.name,
                           rail->fabric.base.memory_kinds ? ", cuda memory too" : "");
}

/* ---- failing and closing ---- */

void ofi_ep_close(struct endpoint *base)
{
    (void)fabric_ep_close(&((struct ofi_ep *)base)->fabric);
}

/* Make the fabric release as many of the endpoint's operations as possible. Sends and
 * matched receives cannot be canceled: those that the fabric still holds afterwards end
 * with the fabric endpoint. Over rxm the connections are broken for that. */
static void operations_release(struct ofi_ep *ep)
{
    enum { READS = 64 };
    struct ofi_rail *rail = ep_rail(ep);
    ofi_bulk_cancel_all(ep);
    (void)ofi_cq_drain(rail);
    if (list_empty(&ep->active) || !ofi_info_is_rxm(rail->info))
        return;
    ofi_sockets_break(ep);
    for (int i = 0; i < READS && !list_empty(&ep->active); i++)
        (void)ofi_cq_drain(rail);
}

/* Park the fabric endpoint of a pair that closes. A parked endpoint does no harm: it has
 * no memory of the caller's, and late messages have no receive there. False: it must be
 * closed instead. */
static bool park(struct ofi_ep *ep)
{
    struct ofi_rail *rail = ep_rail(ep);
    struct ofi_parked *parked;
    /* no peer is connecting to the endpoint: it can be closed */
    if (!rail->parks && ep->bulk_reached)
        return false;
    operations_release(ep);
    if (!list_empty(&ep->active) || !(parked = rail->fabric.host->alloc(sizeof *parked)))
        return false;
    parked->ep = ep->bulk;
    parked->next = rail->parked;
    rail->parked = parked;
    rail->unsettled = rail->unsettled || !ep->bulk_reached;
    return true;
}

/* Over rxm, stop waiting for the rail's queue, and only poll it from now on: it would go
 * on waiting for the queue of the closed endpoint (ofi_info_parks). */
static void wait_end(struct ofi_rail *rail)
{
    if (rail->fabric.source.fd < 0 || !ofi_info_is_rxm(rail->info))
        return;
    fabric_rail_log(&rail->fabric, TRYST_LOG_INFO,
                    "an endpoint did not release a bulk and was closed by force: %s is "
                    "polled from now on, not waited for",
                    rail->info->fabric_attr->prov_name);
    fabric_rail_unwatch(&rail->fabric);
}

/* Close by force: "Outstanding operations posted to the endpoint when fi_close is called
 * will be discarded" (fi_endpoint(3)). Operations that completed before are in the queue,
 * which is read before the others are abandoned. */
static void force(struct ofi_ep *ep)
{
    struct ofi_rail *rail = ep_rail(ep);
    int rc;
    wait_end(rail);
    rc = fi_close(&ep->bulk->fid);
    if (rc != 0)
        fabric_rail_log(&rail->fabric, TRYST_LOG_ERROR,
                        "libfabric cannot close an endpoint: %s", fi_strerror(-rc));
    (void)ofi_cq_drain(rail);
}

static void close_run(struct ofi_ep *ep)
{
    struct ofi_rail *rail = ep_rail(ep);
    if (!ep->hello_seen && ep->fabric.address_sent)
        rail->unsettled = true;
    if (ep->bulk && !park(ep))
        force(ep);
    ep->bulk = NULL;
    ofi_bulk_abandon(ep);
    list_for_each_safe (&ep->packets, node, after) {
        (void)list_remove(node); /* the fabric returns the packet later, or never */
        container_of(node, struct ofi_packet, node)->ep = NULL;
    }
    if (ep->unsent)
        ofi_packet_put(rail, ep->unsent);
    (void)fabric_bulk_report(&rail->fabric);
}

static void close_end(struct ofi_ep *ep)
{
    struct ofi_rail *rail = ep_rail(ep);
    if (ep->peer_bulk != FI_ADDR_UNSPEC)
        (void)fi_av_remove(rail->av, &ep->peer_bulk, 1, 0);
    if (ep->peer_messages != FI_ADDR_UNSPEC)
        (void)fi_av_remove(rail->av, &ep->peer_messages, 1, 0);
    ofi_posted_free(rail->fabric.host, &ep->posted);
    rail->fabric.host->free(ep->records);
    fabric_ep_free(&ep->fabric);
}

int ofi_ep_work(struct ofi_ep *ep)
{
    uint32_t work = ep->fabric.work;
    tryst_status status = TRYST_OK;
    ep->fabric.work = 0;
    if (work & FABRIC_DUE_CLOSE) {
        close_run(ep);
        close_end(ep);
        return 1;
    }
    if (work & FABRIC_DUE_CONNECT && ep->fabric.state == FABRIC_OPENING) {
        status = connect_advance(ep);
        if (status == TRYST_AGAIN)
            ep->fabric.work |= FABRIC_DUE_CONNECT;
    }
    if (work & FABRIC_DUE_PUMP && ep->fabric.state == FABRIC_READY) {
        status = ofi_records_send(ep);
        if (status == TRYST_OK)
            status = ofi_held_start(ep);
        if (status == TRYST_AGAIN && ep->fabric.state == FABRIC_READY)
            ep->fabric.work |= FABRIC_DUE_PUMP;
    }
    if (work & FABRIC_DUE_FAILED && ep->fabric.state == FABRIC_BROKEN)
        fabric_ep_failure_report(&ep->fabric);
    if (status != TRYST_AGAIN)
        return 1;
    if (ep->fabric.work && !list_linked(&ep->fabric.work_node))
        list_push_back(&ep_rail(ep)->stalled, &ep->fabric.work_node);
    return 0;
}
