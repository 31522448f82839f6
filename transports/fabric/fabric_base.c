/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of a module that ucx and ofi share (fabric_base.h): opening and closing,
 * states, the head of connect messages, and reports.
 *
 * Invariant: `ready` and `failed` are each reported at most once, from progress, and
 * never after ep_close.
 */
#include "fabric_base.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

__thread const struct tryst_host *fabric_log_host;

/* ---- rails ---- */

void *fabric_rail_new(const struct rail_params *params, const struct transport_ops *ops,
                      size_t bytes, uint32_t eps_max)
{
    struct fabric_rail *rail = params->host->alloc(bytes);
    if (!rail)
        return NULL;
    rail->base.ops = ops;
    rail->base.events = params->events;
    rail->base.index = params->index;
    rail->host = params->host;
    rail->poller = params->poller;
    rail->source.fd = -1;
    ep_table_init(&rail->table, eps_max);
    list_init(&rail->done);
    list_init(&rail->work);
    (void)snprintf(rail->name, sizeof rail->name, "%s",
                   params->interface_name ? params->interface_name : "any interface");
    return rail;
}

void fabric_rail_free(struct fabric_rail *rail)
{
    ep_table_end(&rail->table, rail->host);
    rail->host->free(rail);
}

/* Do nothing: the context calls progress next, which does the work. */
static void source_ready(struct poller_source *source, uint32_t events)
{
    (void)source;
    (void)events;
}

static tryst_status rail_watch(struct fabric_rail *rail, int fd)
{
    tryst_status status;
    rail->source =
        (struct poller_source){.fd = fd, .events = EPOLLIN, .fn = source_ready};
    status = rail->host->poller_add(rail->poller, &rail->source);
    if (status != TRYST_OK)
        rail->source.fn = NULL;
    return status;
}

tryst_status fabric_rail_attach(struct rail *base)
{
    struct fabric_rail *rail = (struct fabric_rail *)base;
    return rail->source.fd >= 0 ? rail_watch(rail, rail->source.fd) : TRYST_OK;
}

void fabric_rail_unwatch(struct fabric_rail *rail)
{
    if (rail->source.fn)
        rail->host->poller_remove(rail->poller, &rail->source);
    rail->source.fn = NULL;
    rail->source.fd = -1;
}

void fabric_rail_log(const struct fabric_rail *rail, tryst_log_level level,
                     const char *fmt, ...)
{
    char text[512];
    va_list args;
    int used = snprintf(text, sizeof text, "%s rail %u on %s: ", rail->base.ops->name,
                        rail->base.index, rail->name);
    va_start(args, fmt);
    (void)vsnprintf(text + used, sizeof text - (size_t)used, fmt, args);
    va_end(args);
    rail->host->log(rail->host, level, text);
}

void fabric_rail_refuse(const struct fabric_rail *rail, const struct rail_params *params,
                        const char *text)
{
    fabric_rail_log(rail, TRYST_LOG_WARN, "cannot open: %s", text);
    if (params->text)
        (void)snprintf(params->text, TRANSPORT_TEXT_MAX, "%s", text);
}

/* ---- endpoints ---- */

tryst_status fabric_ep_new(struct fabric_rail *rail, const struct ep_params *params,
                           size_t bytes, struct fabric_ep **ep_p)
{
    struct fabric_ep *ep = rail->host->alloc(bytes);
    if (!ep)
        return TRYST_E_NOMEM;
    ep->base = (struct endpoint){.rail = &rail->base, .arg = params->arg};
    ep->cookie = params->cookie;
    ep->loopback = params->loopback;
    tryst_status status = ep_table_add(&rail->table, rail->host, ep, &ep->id);
    if (status == TRYST_E_SYSTEM)
        fabric_rail_log(rail, TRYST_LOG_WARN,
                        "cannot connect to rank %d: no random bytes for the secret of "
                        "the pair: %s",
                        params->peer_rank, strerror(errno));
    if (status != TRYST_OK) {
        rail->host->free(ep);
        return status;
    }
    fabric_ep_due(ep, FABRIC_DUE_CONNECT);
    *ep_p = ep;
    return TRYST_OK;
}

void fabric_ep_free(struct fabric_ep *ep)
{
    struct fabric_rail *rail = fabric_ep_rail(ep);
    (void)list_remove(&ep->work_node);
    ep_table_remove(&rail->table, ep->id);
    rail->base.events->closed(&ep->base);
    rail->host->free(ep);
}

void fabric_ep_due(struct fabric_ep *ep, enum fabric_due what)
{
    ep->work |= what;
    if (!list_linked(&ep->work_node))
        list_push_back(&fabric_ep_rail(ep)->work, &ep->work_node);
}

void fabric_ep_fail(struct fabric_ep *ep, tryst_status status, const char *fmt, ...)
{
    va_list args;
    if (!fabric_ep_is_live(ep))
        return;
    va_start(args, fmt);
    (void)vsnprintf(ep->text, sizeof ep->text, fmt, args);
    va_end(args);
    /* an endpoint that was never ready reports by `ready` */
    ep->fail_status = ep->state == FABRIC_OPENING ? TRYST_E_UNREACHABLE : status;
    ep->state = FABRIC_BROKEN;
    (void)list_remove(&ep->work_node); /* the endpoint may be in the stalled list (ofi) */
    fabric_ep_due(ep, FABRIC_DUE_FAILED);
}

/* Send a refusal to the peer, which ignores the head behind its first bytes. */
static void refused_send(struct fabric_ep *ep)
{
    unsigned char head[FABRIC_HEAD_MAX] = {0};
    struct fabric_connect refused = fabric_ep_rail(ep)->connect;
    refused.kind = FABRIC_CONNECT_REFUSED;
    memcpy(head, &refused, sizeof refused);
    (void)fabric_connect_send(ep, head, ep->text, strlen(ep->text));
}

void fabric_ep_failure_report(struct fabric_ep *ep)
{
    const struct rail_events *events = ep->base.rail->events;
    if (ep->fail_status == TRYST_E_UNREACHABLE && !ep->loopback)
        refused_send(ep);
    if (ep->fail_status == TRYST_E_UNREACHABLE)
        events->ready(&ep->base, TRYST_E_UNREACHABLE, ep->text);
    else
        events->failed(&ep->base, ep->fail_status, ep->text);
}

void fabric_ep_ready_report(struct fabric_ep *ep, const char *fmt, ...)
{
    va_list args;
    ep->state = FABRIC_READY;
    va_start(args, fmt);
    (void)vsnprintf(ep->text, sizeof ep->text, fmt, args);
    va_end(args);
    ep->base.rail->events->ready(&ep->base, TRYST_OK, ep->text);
}

bool fabric_ep_close(struct fabric_ep *ep)
{
    if (ep->state == FABRIC_CLOSING)
        return false;
    ep->state = FABRIC_CLOSING;
    ep->work = 0;
    (void)list_remove(&ep->work_node); /* the endpoint may be in the stalled list (ofi) */
    fabric_ep_due(ep, FABRIC_DUE_CLOSE);
    return true;
}

bool fabric_connect_handle(struct fabric_ep *ep, const void *data, size_t bytes, int fd)
{
    enum { TEXT_MAX = 120 };
    const struct fabric_connect *wire = &fabric_ep_rail(ep)->connect;
    size_t head_bytes = fabric_ep_rail(ep)->connect_bytes;
    struct fabric_connect head;
    (void)fd; /* rail->takes_fds is false */
    if (!fabric_ep_is_live(ep))
        return false;
    if (bytes < head_bytes) {
        fabric_ep_fail(ep, TRYST_E_PROTOCOL,
                       "protocol error: a connect message of %zu bytes", bytes);
        return false;
    }
    memcpy(&head, data, sizeof head);
    bytes -= head_bytes;
    if (head.magic != wire->magic || head.version != wire->version)
        fabric_ep_fail(ep, TRYST_E_PROTOCOL,
                       "protocol error: not a connect message of %s version %u",
                       ep->base.rail->ops->name, wire->version);
    else if (head.kind == FABRIC_CONNECT_REFUSED)
        fabric_ep_fail(ep, TRYST_E_PEER, "the peer refused: %.*s",
                       (int)(bytes < TEXT_MAX ? bytes : TEXT_MAX),
                       (const char *)data + head_bytes);
    return fabric_ep_is_live(ep) && head.kind == wire->kind;
}

tryst_status fabric_connect_send(struct fabric_ep *ep, const void *head, const void *data,
                                 size_t bytes)
{
    unsigned char message[FABRIC_CONNECT_MAX];
    size_t head_bytes = fabric_ep_rail(ep)->connect_bytes;
    assert(head_bytes + bytes <= sizeof message);
    memcpy(message, head, head_bytes);
    memcpy(message + head_bytes, data, bytes);
    return ep->base.rail->events->connect_send(&ep->base, message, head_bytes + bytes,
                                               -1);
}

/* ---- bulk ---- */

int fabric_bulk_report(struct fabric_rail *rail)
{
    struct list done;
    struct list_node *node;
    int count = 0;
    fabric_list_move(&done, &rail->done);
    while ((node = list_pop_front(&done)) != NULL) {
        struct fabric_bulk *noted = container_of(node, struct fabric_bulk, node);
        struct bulk *bulk = fabric_bulk_public(noted);
        noted->ep->unreported--;
        bulk->done(bulk, noted->status, noted->bytes);
        count++;
    }
    return count;
}
