/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Endpoints: connecting, failing, closing.
 *
 * Idea: calls and completions only mark work on the endpoint; ofi_ep_work does it, from progress.
 * Messages of all pairs go through the rail's one fabric endpoint and touch the rail's own
 * packets only; bulk goes through a fabric endpoint of the pair's own, and closing that is how
 * the caller's memory comes back at once, whatever state the peer is in.
 *
 *   OPENING ── HELLO (B: HEARD) ──▶ READY ── a fabric's error, a broken rule ──▶ BROKEN
 *      └─ refused, an error ─▶ BROKEN            any ── ep_close ──▶ CLOSING ──▶ freed
 *
 * Invariant: an endpoint is freed when no bulk of it is left, here or in the fabric.
 */
#include "ofi_private.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct ofi_ep *ofi_ep_find(struct ofi_rail *rail, uint64_t id)
{
    return ep_table_find(&rail->table, id);
}

tryst_status ofi_ep_usable(const struct ofi_ep *ep)
{
    if (ep->state == OFI_EP_READY)
        return TRYST_OK;
    return ep->work & OFI_DUE_FAILED ? TRYST_AGAIN : TRYST_E_PEER;
}

void ofi_ep_due(struct ofi_ep *ep, enum ofi_due what)
{
    ep->work |= what;
    if (!list_linked(&ep->work_node))
        list_push_back(&ep_rail(ep)->work, &ep->work_node);
}

void ofi_ep_fail(struct ofi_ep *ep, tryst_status status, const char *fmt, ...)
{
    va_list args;
    if (ep->state != OFI_EP_OPENING && ep->state != OFI_EP_READY)
        return;
    va_start(args, fmt);
    (void)vsnprintf(ep->text, sizeof ep->text, fmt, args);
    va_end(args);
    /* who was never ready learns of it through `ready` */
    ep->fail_status = ep->state == OFI_EP_OPENING ? TRYST_E_UNREACHABLE : status;
    ep->state = OFI_EP_BROKEN;
    (void)list_remove(&ep->work_node); /* it may be a stalled one */
    ofi_ep_due(ep, OFI_DUE_FAILED);
}

/* ---- opening ---- */

tryst_status ofi_ep_open(struct rail *base, const struct ep_params *params,
                         struct endpoint **ep_p)
{
    struct ofi_rail *rail = (struct ofi_rail *)base;
    struct ofi_ep *ep = rail->host->alloc(sizeof *ep);
    if (!ep)
        return TRYST_E_NOMEM;
    ep->base = (struct endpoint){.rail = base, .arg = params->arg};
    ep->cookie = params->cookie;
    ep->peer_rank = params->peer_rank;
    ep->loopback = params->loopback;
    ep->initiator = params->initiator || params->loopback;
    ep->peer_messages = ep->peer_bulk = FI_ADDR_UNSPEC;
    list_init(&ep->packets);
    list_init(&ep->active);
    list_init(&ep->held);
    if (ep_table_add(&rail->table, rail->host, ep, &ep->id) != TRYST_OK) {
        rail->host->free(ep);
        return TRYST_E_NOMEM;
    }
    ofi_ep_due(ep, OFI_DUE_CONNECT);
    *ep_p = &ep->base;
    return TRYST_OK;
}

static tryst_status connect_send(struct ofi_ep *ep, enum ofi_connect_kind kind,
                                 const void *data, size_t bytes)
{
    unsigned char message[sizeof(struct ofi_connect) + OFI_ADDRESS_MAX];
    struct ofi_rail *rail = ep_rail(ep);
    struct ofi_connect head = {.magic = OFI_CONNECT_MAGIC,
                               .version = OFI_WIRE_VERSION,
                               .kind = (uint16_t)kind,
                               .ep_id = ep->id};
    (void)snprintf(head.provider, sizeof head.provider, "%s",
                   rail->info->fabric_attr->prov_name);
    memcpy(message, &head, sizeof head);
    memcpy(message + sizeof head, data, bytes);
    return ep->base.rail->events->connect_send(&ep->base, message, sizeof head + bytes,
                                               -1);
}

static void address_take(struct ofi_ep *ep, const struct ofi_connect *head,
                         const void *data, size_t bytes)
{
    struct ofi_rail *rail = ep_rail(ep);
    unsigned char address[OFI_ADDRESS_MAX] = {0};
    const char *provider = rail->info->fabric_attr->prov_name;
    if (strncmp(head->provider, provider, sizeof head->provider) != 0) {
        ofi_ep_fail(ep, TRYST_E_UNREACHABLE,
                    "libfabric's provider is %.31s here and %.31s there: set "
                    "FI_PROVIDER alike, or use one version",
                    provider, head->provider);
        return;
    }
    if (ep->peer_known || bytes == 0 || bytes > sizeof address) {
        ofi_ep_fail(ep, TRYST_E_PROTOCOL, "an address of %zu bytes, or a second one",
                    bytes);
        return;
    }
    memcpy(address, data, bytes);
    if (fi_av_insert(rail->av, address, 1, &ep->peer_messages, 0, NULL) != 1) {
        ep->peer_messages = FI_ADDR_UNSPEC;
        ofi_ep_fail(ep, TRYST_E_UNREACHABLE, "%.31s does not take the peer's address",
                    provider);
        return;
    }
    ep->peer_id = head->ep_id;
    ep->peer_known = true;
    ofi_ep_due(ep, OFI_DUE_CONNECT);
}

void ofi_ep_message(struct endpoint *base, const void *data, size_t bytes, int fd)
{
    struct ofi_ep *ep = (struct ofi_ep *)base;
    const tryst_host *previous;
    struct ofi_connect head;
    const char *rest = (const char *)data + sizeof head;
    if (fd >= 0)
        close(fd);
    if (ep->state != OFI_EP_OPENING && ep->state != OFI_EP_READY)
        return;
    if (bytes < sizeof head) {
        ofi_ep_fail(ep, TRYST_E_PROTOCOL, "a connect message of %zu bytes", bytes);
        return;
    }
    memcpy(&head, data, sizeof head);
    head.provider[sizeof head.provider - 1] = '\0';
    bytes -= sizeof head;
    previous = ofi_log_begin(ep_rail(ep)->host);
    if (head.magic != OFI_CONNECT_MAGIC || head.version != OFI_WIRE_VERSION)
        ofi_ep_fail(ep, TRYST_E_PROTOCOL, "not a connect message of ofi version %u",
                    OFI_WIRE_VERSION);
    else if (head.kind == OFI_CONNECT_REFUSED)
        ofi_ep_fail(ep, TRYST_E_PEER, "the peer says: %.*s",
                    (int)(bytes < 120 ? bytes : 120), rest);
    else if (head.kind == OFI_CONNECT_ADDRESS)
        address_take(ep, &head, rest, bytes);
    ofi_log_end(previous);
}

static void loopback_start(struct ofi_ep *ep)
{
    struct ofi_rail *rail = ep_rail(ep);
    ep->peer_id = ep->id;
    ep->address_sent = true;
    ep->peer_known =
        fi_av_insert(rail->av, rail->address, 1, &ep->peer_messages, 0, NULL) == 1;
    if (!ep->peer_known) {
        ep->peer_messages = FI_ADDR_UNSPEC;
        ofi_ep_fail(ep, TRYST_E_UNREACHABLE, "%s does not take its own address",
                    rail->info->fabric_attr->prov_name);
    }
}

/* TRYST_AGAIN: the fabric is still connecting, try later. */
static tryst_status connect_go_on(struct ofi_ep *ep)
{
    struct ofi_rail *rail = ep_rail(ep);
    tryst_status status = TRYST_OK;
    if (ep->loopback && !ep->address_sent)
        loopback_start(ep);
    if (!ep->address_sent) {
        ep->address_sent = true;
        if (connect_send(ep, OFI_CONNECT_ADDRESS, rail->address, rail->address_bytes) !=
            TRYST_OK)
            ofi_ep_fail(ep, TRYST_E_PEER, "the link closed while connecting");
    }
    if (ep->state != OFI_EP_OPENING || !ep->peer_known)
        return TRYST_OK;
    if (!ep->hello_sent && (ep->initiator || ep->hello_seen)) {
        status = ofi_message_send(ep, OFI_HELLO, NULL, 0);
        ep->hello_sent = status == TRYST_OK;
    }
    if (ep->hello_sent && ep->hello_seen && !ep->heard_sent) {
        status = ofi_message_send(ep, OFI_HEARD, NULL, 0);
        ep->heard_sent = status == TRYST_OK;
    }
    if (ep->state == OFI_EP_OPENING && ep->heard_sent && ep->heard_seen)
        ofi_ep_ready_say(ep);
    return status == TRYST_AGAIN ? TRYST_AGAIN : TRYST_OK;
}

void ofi_ep_ready_say(struct ofi_ep *ep)
{
    struct ofi_rail *rail = ep_rail(ep);
    uint32_t version = fi_version();
    ep->state = OFI_EP_READY;
    (void)snprintf(ep->text, sizeof ep->text, "libfabric %u.%u, %s on %s%s",
                   FI_MAJOR(version), FI_MINOR(version),
                   rail->info->fabric_attr->prov_name, rail->name,
                   rail->base.memory_kinds ? ", cuda memory too" : "");
    ep->base.rail->events->ready(&ep->base, TRYST_OK, ep->text);
}

/* ---- failing and closing ---- */

static void failed_say(struct ofi_ep *ep)
{
    const struct rail_events *events = ep->base.rail->events;
    if (ep->fail_status != TRYST_E_UNREACHABLE) {
        events->failed(&ep->base, ep->fail_status, ep->text);
        return;
    }
    if (!ep->loopback) /* the peer may still be waiting for us */
        (void)connect_send(ep, OFI_CONNECT_REFUSED, ep->text, strlen(ep->text));
    events->ready(&ep->base, TRYST_E_UNREACHABLE, ep->text);
}

void ofi_ep_close(struct endpoint *base)
{
    struct ofi_ep *ep = (struct ofi_ep *)base;
    if (ep->state == OFI_EP_CLOSING)
        return;
    ep->state = OFI_EP_CLOSING;
    ep->work = 0;
    (void)list_remove(&ep->work_node); /* it may be a stalled one */
    ofi_ep_due(ep, OFI_DUE_CLOSE);
}

/* Receives that are matched, and sends, are not canceled: what the fabric still holds of them afterwards
 * ends with the endpoint. Over rxm the connections must be broken before. */
static void let_go(struct ofi_ep *ep)
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

/* What the fabric holds of a pair whose endpoint closes. Parked, it does no harm: it has no memory
 * of the caller's, and what still comes there has no receive. */
static bool park(struct ofi_ep *ep)
{
    struct ofi_rail *rail = ep_rail(ep);
    struct ofi_parked *parked;
    if (!rail->parks && ep->bulk_reached)
        return false; /* nobody is connecting to it: it can just be closed */
    let_go(ep);
    if (!list_empty(&ep->active) || !(parked = rail->host->alloc(sizeof *parked)))
        return false;
    parked->ep = ep->bulk;
    parked->next = rail->parked;
    rail->parked = parked;
    rail->unsettled = rail->unsettled || !ep->bulk_reached;
    return true;
}

/* Over rxm our queue goes on waiting for the queue of an endpoint that is closed (ofi_info_parks), so from now
 * on nobody waits for it. */
static void wait_end(struct ofi_rail *rail)
{
    if (rail->source.fd < 0 || !ofi_info_is_rxm(rail->info))
        return;
    ofi_rail_log(
        rail, TRYST_LOG_INFO,
        "an endpoint did not let go of a bulk and is closed: %s is asked now and "
        "then from here on, not waited for",
        rail->info->fabric_attr->prov_name);
    ofi_rail_wait_end(rail);
}

/* By force: "Outstanding operations posted to the endpoint when fi_close is called will be
 * discarded" (fi_endpoint(3)). Those that completed before are in the queue, and are read first. */
static void force(struct ofi_ep *ep)
{
    struct ofi_rail *rail = ep_rail(ep);
    int rc;
    wait_end(rail);
    rc = fi_close(&ep->bulk->fid);
    if (rc != 0)
        ofi_rail_log(rail, TRYST_LOG_ERROR, "libfabric does not close an endpoint: %s",
                     fi_strerror(-rc));
    (void)ofi_cq_drain(rail);
}

static void close_run(struct ofi_ep *ep)
{
    struct ofi_rail *rail = ep_rail(ep);
    if (!ep->hello_seen && ep->address_sent)
        rail->unsettled = true;
    if (ep->bulk && !park(ep))
        force(ep);
    ep->bulk = NULL;
    ofi_bulk_abandon(ep);
    list_for_each_safe (&ep->packets, node, after) {
        (void)list_remove(
            node); /* it is the fabric's, and comes back some time or never */
        container_of(node, struct ofi_packet, node)->ep = NULL;
    }
    (void)ofi_bulk_report(rail);
}

static void close_end(struct ofi_ep *ep)
{
    struct ofi_rail *rail = ep_rail(ep);
    (void)list_remove(&ep->work_node);
    ep_table_remove(&rail->table, ep->id);
    if (ep->peer_bulk != FI_ADDR_UNSPEC)
        (void)fi_av_remove(rail->av, &ep->peer_bulk, 1, 0);
    if (ep->peer_messages != FI_ADDR_UNSPEC)
        (void)fi_av_remove(rail->av, &ep->peer_messages, 1, 0);
    ep->base.rail->events->closed(&ep->base);
    ofi_posted_free(rail->host, &ep->posted);
    rail->host->free(ep->records);
    rail->host->free(ep);
}

int ofi_ep_work(struct ofi_ep *ep)
{
    uint32_t work = ep->work;
    tryst_status status = TRYST_OK;
    ep->work = 0;
    if (work & OFI_DUE_CLOSE) {
        close_run(ep);
        close_end(ep);
        return 1;
    }
    if (work & OFI_DUE_CONNECT && ep->state == OFI_EP_OPENING) {
        status = connect_go_on(ep);
        if (status == TRYST_AGAIN)
            ep->work |= OFI_DUE_CONNECT;
    }
    if (work & OFI_DUE_PUMP && ep->state == OFI_EP_READY) {
        status = ofi_records_send(ep);
        if (status == TRYST_OK)
            status = ofi_held_start(ep);
        if (status == TRYST_AGAIN && ep->state == OFI_EP_READY)
            ep->work |= OFI_DUE_PUMP;
    }
    if (work & OFI_DUE_FAILED && ep->state == OFI_EP_BROKEN)
        failed_say(ep);
    if (status != TRYST_AGAIN)
        return 1;
    if (ep->work && !list_linked(&ep->work_node))
        list_push_back(&ep_rail(ep)->stalled, &ep->work_node);
    return 0;
}
