/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fault wrapper (fault.h).
 *
 * Idea: each endpoint here wraps an endpoint of the inner transport, which points back by
 * its `arg`. Calls go down and events come up through this pair, and each passes the
 * script. Bulks stay the caller's and go down unchanged, at once or later (fault_hold.c),
 * so the inner transport calls their `done`.
 * Invariant: the script drops frames and bulks before the inner transport has received
 * them, or after it has released them; so the inner transport's own contract holds
 * throughout.
 */
#include "fault_private.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/memory/alloc.h"

static struct fault_ep *inner_ep(const struct endpoint *inner)
{
    return inner->arg;
}

/* ---- the script ---- */

/* Break the endpoint. */
static void ep_break(struct fault_ep *ep, const char *what, uint64_t number)
{
    if (ep->broken || ep->failed_reported)
        return;
    ep->broken = true;
    (void)snprintf(ep->text, sizeof ep->text, "fault script: killed at %s %llu", what,
                   (unsigned long long)number);
    list_push_back(&ep_rail(ep)->failing, &ep->failing_node);
}

/* Count an event on `ep`: a frame or bulk is started, a frame arrives, or a borrowed bulk
 * is read. */
static void event_count(struct fault_ep *ep)
{
    struct fault_rail *rail = ep_rail(ep);
    const struct fault_script *script = &rail->script;
    if (ep->spared)
        return;
    uint64_t event = ++rail->events;
    if (script->silent == event)
        ep->silent = true;
    if (script->kill == event)
        ep_break(ep, "event", event);
}

static void read_count(struct fault_ep *ep)
{
    struct fault_rail *rail = ep_rail(ep);
    event_count(ep);
    if (!ep->spared && ++rail->reads == rail->script.kill_read)
        ep_break(ep, "read", rail->reads);
}

static bool share_drawn(struct fault_rail *rail, enum fault_stream stream, double share)
{
    return share > 0 && random_unit(&rail->random[stream]) < share;
}

/* Check whether a call may go on: TRYST_OK. On a broken endpoint TRYST_AGAIN until
 * `failed` was reported, then TRYST_E_PEER. TRYST_AGAIN also where the script draws
 * it. */
static tryst_status gate(struct fault_ep *ep)
{
    struct fault_rail *rail = ep_rail(ep);
    if (ep->broken)
        return ep->failed_reported ? TRYST_E_PEER : TRYST_AGAIN;
    if (!ep->spared && share_drawn(rail, STREAM_AGAIN, rail->script.again)) {
        rail->again_reported = true;
        return TRYST_AGAIN;
    }
    return TRYST_OK;
}

static bool frame_lost(struct fault_ep *ep)
{
    struct fault_rail *rail = ep_rail(ep);
    const struct fault_script *script = &rail->script;
    if (ep->spared)
        return false;
    uint64_t number = ++rail->frames;
    return ep->silent || (script->drop_every && number % script->drop_every == 0) ||
           (script->drop_after && number > script->drop_after);
}

/* ---- events, upwards ---- */

static void on_frame(struct endpoint *inner, const void *data, size_t bytes)
{
    struct fault_ep *ep = inner_ep(inner);
    if (!ep->silent && !ep->broken)
        ep->base.rail->events->frame(&ep->base, data, bytes);
    event_count(ep);
}

static void on_ready(struct endpoint *inner, tryst_status status, const char *text)
{
    struct fault_ep *ep = inner_ep(inner);
    ep->base.borrows = inner->borrows;
    ep->base.rail->events->ready(&ep->base, status, text);
}

static void failed_report(struct fault_ep *ep, tryst_status status, const char *text)
{
    (void)list_remove(&ep->failing_node);
    if (ep->failed_reported)
        return;
    ep->broken = ep->failed_reported = true;
    ep->base.rail->events->failed(&ep->base, status, text);
}

static void on_failed(struct endpoint *inner, tryst_status status, const char *text)
{
    failed_report(inner_ep(inner), status, text);
}

static void on_mech_dropped(struct endpoint *inner)
{
    struct fault_ep *ep = inner_ep(inner);
    ep->base.rail->events->mech_dropped(&ep->base);
}

static void on_unexpected(struct endpoint *inner, uint64_t tag, size_t bytes)
{
    struct fault_ep *ep = inner_ep(inner);
    ep->base.rail->events->unexpected(&ep->base, tag, bytes);
}

static void on_closed(struct endpoint *inner)
{
    struct fault_ep *ep = inner_ep(inner);
    struct fault_rail *rail = ep_rail(ep);
    (void)hold_bulks_withdraw(ep);
    (void)list_remove(&ep->failing_node);
    (void)list_remove(&ep->node);
    rail->base.events->closed(&ep->base);
    mem_free(ep);
}

static tryst_status on_connect_send(struct endpoint *inner, const void *data,
                                    size_t bytes, int fd)
{
    struct fault_ep *ep = inner_ep(inner);
    if (ep_rail(ep)->script.mute && !ep->spared)
        return TRYST_OK;
    return ep->base.rail->events->connect_send(&ep->base, data, bytes, fd);
}

static void on_doorbell(struct endpoint *inner)
{
    struct fault_ep *ep = inner_ep(inner);
    ep->base.rail->events->doorbell(&ep->base);
}

static const struct rail_events events = {on_frame,        on_ready,      on_failed,
                                          on_mech_dropped, on_unexpected, on_closed,
                                          on_connect_send, on_doorbell};

/* ---- calls, downwards ---- */

static void fault_rail_close(struct rail *base)
{
    struct fault_rail *rail = (struct fault_rail *)base;
    rail->inner->ops->rail_close(rail->inner);
    hold_close(rail);
    mem_free(rail);
}

static int fault_progress(struct rail *base)
{
    struct fault_rail *rail = (struct fault_rail *)base;
    int count = rail->again_reported;
    struct list_node *node;
    rail->again_reported = false;
    while ((node = list_first(&rail->failing)) != NULL) {
        struct fault_ep *ep = container_of(node, struct fault_ep, failing_node);
        failed_report(ep, TRYST_E_PEER, ep->text);
        count++;
    }
    count += hold_release(rail);
    return count + rail->inner->ops->progress(rail->inner);
}

static tryst_status fault_arm(struct rail *base)
{
    struct fault_rail *rail = (struct fault_rail *)base;
    if (rail->again_reported || !list_empty(&rail->failing))
        return TRYST_AGAIN;
    tryst_status held = hold_arm(rail);
    if (held == TRYST_AGAIN)
        return held;
    tryst_status inner = rail->inner->ops->arm(rail->inner);
    base->copies_busy = rail->inner->copies_busy;
    return inner == TRYST_OK ? held : inner;
}

static tryst_status fault_ep_open(struct rail *base, const struct ep_params *params,
                                  struct endpoint **ep_p)
{
    struct fault_rail *rail = (struct fault_rail *)base;
    struct ep_params inner_params = *params;
    struct fault_ep *ep = mem_zalloc(sizeof *ep);
    tryst_status status;
    if (!ep)
        return TRYST_E_NOMEM;
    ep->base = (struct endpoint){.rail = base, .arg = params->arg};
    ep->spared =
        rail->script.one_rank && rail->script.rank != (uint64_t)params->local_rank;
    list_init(&ep->frames);
    list_init(&ep->bulks);
    inner_params.arg = ep;
    status = rail->inner->ops->ep_open(rail->inner, &inner_params, &ep->inner);
    if (status != TRYST_OK) {
        mem_free(ep);
        return status;
    }
    list_push_back(&rail->eps, &ep->node);
    *ep_p = &ep->base;
    return TRYST_OK;
}

static void fault_ep_message(struct endpoint *base, const void *data, size_t bytes,
                             int fd)
{
    struct fault_ep *ep = (struct fault_ep *)base;
    ep->inner->rail->ops->ep_message(ep->inner, data, bytes, fd);
}

static void fault_ep_close(struct endpoint *base)
{
    struct fault_ep *ep = (struct fault_ep *)base;
    (void)list_remove(&ep->failing_node);
    ep->failed_reported = true; /* no event but `closed` may follow */
    hold_ep_close(ep);
    if (ep_rail(ep)->script.stuck && !ep->spared)
        return;
    ep->inner->rail->ops->ep_close(ep->inner);
}

static tryst_status fault_frame_begin(struct endpoint *base, size_t max, void **frame_p)
{
    struct fault_ep *ep = (struct fault_ep *)base;
    tryst_status status = gate(ep);
    return status == TRYST_OK ? hold_frame_begin(ep, max, frame_p) : status;
}

static void fault_frame_commit(struct endpoint *base, size_t bytes)
{
    struct fault_ep *ep = (struct fault_ep *)base;
    if (!frame_lost(ep)) /* a lost frame counts as never begun */
        hold_frame_commit(ep, bytes);
    event_count(ep);
}

static tryst_status fault_bulk_recv(struct endpoint *base, struct bulk *bulk)
{
    struct fault_ep *ep = (struct fault_ep *)base;
    if (!rail_takes(base->rail, bulk))
        return TRYST_E_UNSUPPORTED;
    tryst_status status = gate(ep);
    if (status == TRYST_OK)
        status = ep->inner->rail->ops->bulk_recv(ep->inner, bulk);
    if (status == TRYST_OK)
        event_count(ep);
    return status;
}

static tryst_status fault_bulk_send(struct endpoint *base, struct bulk *bulk)
{
    struct fault_ep *ep = (struct fault_ep *)base;
    if (!rail_takes(base->rail, bulk))
        return TRYST_E_UNSUPPORTED;
    tryst_status status = gate(ep);
    if (status == TRYST_OK)
        status = hold_bulk(ep, bulk);
    if (status == TRYST_OK)
        event_count(ep);
    return status;
}

static void fault_bulk_cancel(struct endpoint *base, struct bulk *bulk)
{
    struct fault_ep *ep = (struct fault_ep *)base;
    ep->inner->rail->ops->bulk_cancel(ep->inner, bulk);
}

static tryst_status fault_bulk_read(struct endpoint *base, struct bulk *bulk, size_t at,
                                    size_t bytes, bulk_use use, void *arg)
{
    struct fault_ep *ep = (struct fault_ep *)base;
    read_count(ep);
    if (ep->broken) /* `done` follows from ep_close */
        return TRYST_E_PEER;
    return ep->inner->rail->ops->bulk_read(ep->inner, bulk, at, bytes, use, arg);
}

static tryst_status fault_bulk_return(struct endpoint *base, struct bulk *bulk)
{
    struct fault_ep *ep = (struct fault_ep *)base;
    if (ep->broken)
        return TRYST_E_PEER;
    return ep->inner->rail->ops->bulk_return(ep->inner, bulk);
}

/* ---- registrations, in the region's slot of the outer rail ---- */

static tryst_status fault_mem_register(struct rail *base, struct tryst_mem *mem,
                                       void **handle_p)
{
    struct fault_rail *rail = (struct fault_rail *)base;
    struct rail *inner = rail->inner;
    if (share_drawn(rail, STREAM_UNREGISTERED, rail->script.unregistered))
        return TRYST_E_NOMEM;
    if (inner->ops->mem_register)
        return inner->ops->mem_register(inner, mem, handle_p);
    *handle_p = NULL;
    return TRYST_OK;
}

static void fault_mem_unregister(struct rail *base, void *handle)
{
    struct rail *inner = ((struct fault_rail *)base)->inner;
    if (inner->ops->mem_unregister)
        inner->ops->mem_unregister(inner, handle);
}

/* Get a registration for the inner rail, which is kept in the outer rail's slot of the
 * region. The outer rail is found from inner->events, which lies inside it. */
static tryst_status inner_mem_handle(struct tryst_mem *mem, struct rail *inner,
                                     void **handle_p)
{
    struct fault_rail *rail =
        (struct fault_rail *)((char *)inner->events -
                              offsetof(struct fault_rail, inner_events));
    return rail->host->mem_handle(mem, &rail->base, handle_p);
}

static tryst_status fault_mem_share(struct endpoint *base, struct tryst_mem *mem)
{
    struct endpoint *inner = ((struct fault_ep *)base)->inner;
    if (!inner->rail->ops->mem_share)
        return TRYST_E_UNSUPPORTED;
    return inner->rail->ops->mem_share(inner, mem);
}

static tryst_status fault_mem_view(struct endpoint *base, uint64_t id,
                                   const void **data_p, size_t *bytes_p)
{
    struct endpoint *inner = ((struct fault_ep *)base)->inner;
    if (!inner->rail->ops->mem_view)
        return TRYST_E_UNSUPPORTED;
    return inner->rail->ops->mem_view(inner, id, data_p, bytes_p);
}

/* ---- opening ---- */

static tryst_status fault_rail_attach(struct rail *base)
{
    struct fault_rail *rail = (struct fault_rail *)base;
    tryst_status status = hold_attach(rail);
    if (status == TRYST_OK && rail->inner->ops->rail_attach)
        status = rail->inner->ops->rail_attach(rail->inner);
    return status;
}

const struct transport_ops fault_ops = {
    .name = "fault",
    .struct_size = sizeof(struct transport_ops),
    .rail_attach = fault_rail_attach,
    .rail_close = fault_rail_close,
    .progress = fault_progress,
    .arm = fault_arm,
    .ep_open = fault_ep_open,
    .ep_message = fault_ep_message,
    .ep_close = fault_ep_close,
    .frame_begin = fault_frame_begin,
    .frame_commit = fault_frame_commit,
    .bulk_recv = fault_bulk_recv,
    .bulk_send = fault_bulk_send,
    .bulk_cancel = fault_bulk_cancel,
    .bulk_read = fault_bulk_read,
    .bulk_return = fault_bulk_return,
    .mem_register = fault_mem_register,
    .mem_unregister = fault_mem_unregister,
    .mem_share = fault_mem_share,
    .mem_view = fault_mem_view,
};

tryst_status fault_rail_open(const struct transport_ops *inner,
                             const struct fault_script *script,
                             const struct rail_params *params, struct rail **rail_p)
{
    struct rail_params inner_params = *params;
    struct fault_rail *rail = mem_zalloc(sizeof *rail);
    tryst_status status;
    if (!rail)
        return TRYST_E_NOMEM;
    rail->host = params->host;
    rail->poller = params->poller;
    rail->inner_host = *params->host;
    rail->inner_host.mem_handle = inner_mem_handle;
    rail->inner_events = events;
    rail->script = *script;
    for (unsigned i = 0; i < STREAMS; i++)
        random_seed(&rail->random[i], (script->seed + params->index) ^ (uint64_t)i << 56);
    list_init(&rail->eps);
    list_init(&rail->failing);
    inner_params.host = &rail->inner_host;
    inner_params.events = &rail->inner_events;
    status = inner->rail_open(&inner_params, &rail->inner);
    if (status != TRYST_OK)
        goto free_rail;
    rail->inner->ops = inner;
    status = hold_open(rail);
    if (status != TRYST_OK)
        goto close_inner;
    rail->base = *rail->inner; /* the inner rail's limits */
    rail->base.ops = &fault_ops;
    rail->base.events = params->events;
    *rail_p = &rail->base;
    return TRYST_OK;

close_inner:
    inner->rail_close(rail->inner);
free_rail:
    mem_free(rail);
    return status;
}
