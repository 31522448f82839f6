/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rails of a context: which interfaces, what is announced of them, and their workers.
 *
 * Idea: interfaces are chosen once, before the ranks meet; a transport is found, and its module
 * loaded, when the identities that the ranks exchanged show that a peer needs it.
 * Invariant: rail i of a network transport is interface i, as it was announced.
 * Callers: context.c, group_open.c; rendezvous through rendezvous_params; users.
 */
#include "rails.h"

#include <stdio.h>
#include <string.h>

#include "context.h"
#include "core/descriptors.h"
#include "rendezvous/rendezvous.h"
#include "rendezvous/submission.h"
#include "topology/net/netif.h"
#include "topology/net/netif_choose.h"
#include "transports/fault.h"
#include "transports/fault_script.h"
#include "transports/memory/memory.h"
#include "transports/module_load.h"

/* A rail takes up to 16 of them (UCX with two interfaces). */
enum { RAIL_DESCRIPTORS = 32 };

/* ---- interfaces --------------------------------------------------------------------------- */

tryst_status rails_choose(tryst_ctx *ctx, struct err *err)
{
    struct netif_list *chosen = NULL;
    if (ctx->wiring->rails.interfaces)
        return TRYST_OK;
    tryst_status status = netif_choose(config_str(ctx->config, CONFIG_NET), err, &chosen);
    if (status == TRYST_OK)
        status = netif_first_each(chosen, err, &ctx->wiring->rails.interfaces);
    netif_list_close(chosen);
    return status;
}

void rails_link_addresses(const tryst_ctx *ctx, struct link_tcp *tcp)
{
    const struct netif_list *list = ctx->wiring->rails.interfaces;
    const struct netif *best = list->count ? &list->items[0] : NULL;
    for (size_t i = 1; i < list->count && i < RAILS_MAX; i++)
        if (list->items[i].default_metric < best->default_metric)
            best = &list->items[i];
    tcp->count = 0;
    if (best)
        tcp->addresses[tcp->count++] = best->address;
    for (size_t i = 0; i < list->count && i < RAILS_MAX; i++)
        if (&list->items[i] != best)
            tcp->addresses[tcp->count++] = list->items[i].address;
}

void rails_announce(const tryst_ctx *ctx, struct host_identity *identity)
{
    const struct netif_list *list = ctx->wiring->rails.interfaces;
    identity->rails_count = 0;
    for (size_t i = 0; i < list->count && i < RAILS_MAX; i++) {
        struct rail_address *rail = &identity->rails[identity->rails_count++];
        const struct sockaddr_storage *address = &list->items[i].address;
        uint64_t mbit = list->items[i].speed_bits_per_s / 1000000;
        rail->speed_mbit_per_s = mbit < UINT32_MAX ? (uint32_t)mbit : UINT32_MAX;
        rail->prefix_bits = (uint8_t)list->items[i].prefix_bits;
        if (address->ss_family == AF_INET) {
            rail->family = 4;
            memcpy(rail->ip,
                   &((const struct sockaddr_in *)(const void *)address)->sin_addr, 4);
        } else {
            rail->family = 6;
            memcpy(rail->ip,
                   &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, 16);
        }
    }
}

/* ---- transports --------------------------------------------------------------------------- */

static const struct transport_ops *builtin_find(const char *name)
{
    for (size_t i = 0; transport_builtin[i]; i++)
        if (strcmp(transport_builtin[i]->name, name) == 0)
            return transport_builtin[i];
    return NULL;
}

/** Built in, or a module that is loaded now. NULL with the reason in `text`. */
static const struct transport_ops *transport_get(tryst_ctx *ctx, enum transport_kind kind,
                                                 char *text)
{
    const char *name = transport_kind_name(kind);
    const struct transport_ops *ops = builtin_find(name);
    bool there = true;
    descriptors_low_hold();
    if (!ops)
        there = module_load(&ctx->wiring->host, name, &ops, text) == TRYST_OK;
    there = there && ops->probe(&ctx->wiring->host, text) == TRYST_OK;
    descriptors_low_release();
    return there ? ops : NULL;
}

/** A rail of `ops`, or one that misbehaves as TRYST_FAULT says (read by settings_check before). */
static tryst_status rail_start(tryst_ctx *ctx, const struct transport_ops *ops,
                               const struct rail_params *params, struct rail **rail_p)
{
    struct fault_script script;
    char why[TRANSPORT_TEXT_MAX];
    const char *fault = config_str(ctx->config, CONFIG_FAULT);
    if (*fault && fault_script_parse(fault, &script, why) == TRYST_OK)
        return fault_rail_open(ops, &script, params, rail_p);
    tryst_status status = ops->rail_open(params, rail_p);
    if (status == TRYST_OK)
        (*rail_p)->ops = ops;
    return status;
}

static tryst_status rail_open(tryst_ctx *ctx, enum transport_kind kind,
                              const struct transport_ops *ops, const struct netif *netif)
{
    struct wiring *wiring = ctx->wiring;
    struct rail *rail;
    struct rail_params params = {
        .host = &wiring->host,
        .events = rendezvous_rail_events,
        .poller = &ctx->poller,
        .interface_name = netif ? netif->name : NULL,
        .interface_address = netif ? (const struct sockaddr *)&netif->address : NULL,
        .index = wiring->rails.count,
        .own_shm_allowed = !*config_str(ctx->config, CONFIG_HOST_ID)};
    if (wiring->rails.count == MEMORY_RAILS_MAX)
        return TRYST_E_UNSUPPORTED;
    tryst_status status = rail_start(ctx, ops, &params, &rail);
    if (status != TRYST_OK)
        return status;
    wiring->rails.all[wiring->rails.count++] = rail;
    return rendezvous_rail_add(ctx->rdv, kind, rail);
}

/** One rail for each interface. What cannot be opened leaves its place empty, so that the others
 *  keep the numbers that were announced. TRYST_OK when at least one could. */
static tryst_status rails_of_interfaces(tryst_ctx *ctx, enum transport_kind kind,
                                        const struct transport_ops *ops)
{
    const struct netif_list *interfaces = ctx->wiring->rails.interfaces;
    tryst_status worst = TRYST_E_UNSUPPORTED;
    bool any = false;
    for (size_t i = 0; i < interfaces->count && i < RAILS_MAX; i++) {
        tryst_status status = rail_open(ctx, kind, ops, &interfaces->items[i]);
        any = any || status == TRYST_OK;
        if (status == TRYST_OK)
            continue;
        worst = status;
        LOG_WARN(&ctx->log, "%s cannot use the interface %s: %s",
                 transport_kind_name(kind), interfaces->items[i].name,
                 tryst_status_str(status));
        (void)rendezvous_rail_add(ctx->rdv, kind, NULL);
    }
    if (!any)
        rendezvous_rails_none(ctx->rdv, kind);
    return any ? TRYST_OK : worst;
}

/** Where there is one interface and nobody named it, the fabric sees the machine as it is. */
tryst_status rails_open(void *owner, int kind, char *text)
{
    tryst_ctx *ctx = owner;
    const struct netif_list *interfaces = ctx->wiring->rails.interfaces;
    bool network = kind != TRANSPORT_SELF && kind != TRANSPORT_SHM && interfaces;
    tryst_status status;
    if (network && !ctx->wiring->rails.low_held)
        descriptors_low_hold(); /* the fabric's sockets */
    ctx->wiring->rails.low_held |= network;
    const struct transport_ops *ops = transport_get(ctx, (enum transport_kind)kind, text);
    if (!ops)
        return TRYST_E_UNSUPPORTED;
    if (network && (interfaces->count > 1 || *config_str(ctx->config, CONFIG_NET)))
        status = rails_of_interfaces(ctx, (enum transport_kind)kind, ops);
    else
        status = rail_open(ctx, (enum transport_kind)kind, ops, NULL);
    if (status != TRYST_OK)
        snprintf(text, TRANSPORT_TEXT_MAX, "its worker could not be opened: %s",
                 descriptors_left(RAIL_DESCRIPTORS)
                     ? tryst_status_str(status)
                     : "few descriptors are left (raise the limit, ulimit -n)");
    return status;
}

void rails_close(tryst_ctx *ctx)
{
    struct wiring *wiring = ctx->wiring;
    while (wiring->rails.count) {
        struct rail *rail = wiring->rails.all[--wiring->rails.count];
        memory_rail_forget(wiring->memory, rail);
        rail->ops->rail_close(rail);
    }
    if (wiring->rails.low_held)
        descriptors_low_release();
    wiring->rails.low_held = false;
}

uint32_t rails_available(tryst_ctx *ctx)
{
    uint32_t mask = 0;
    char text[TRANSPORT_TEXT_MAX];
    for (int kind = 0; kind < TRANSPORT_KINDS; kind++) {
        const char *name = transport_kind_name((enum transport_kind)kind);
        const struct transport_ops *ops = builtin_find(name);
        bool there = ops ? ops->probe(&ctx->wiring->host, text) == TRYST_OK
                         : module_find(&ctx->wiring->host, name, text);
        mask |= (uint32_t)there << kind;
    }
    return mask;
}

int tryst_transport_visit(tryst_ctx *ctx,
                          int (*fn)(void *arg, const tryst_transport_info *info),
                          void *arg)
{
    int stop = 0;
    if (!ctx || !fn || rendezvous_usable(ctx->rdv) != TRYST_OK)
        return 0;
    for (int kind = 0; kind < TRANSPORT_KINDS && !stop; kind++) {
        char text[TRANSPORT_TEXT_MAX] = "";
        const char *name = transport_kind_name((enum transport_kind)kind);
        const struct transport_ops *ops =
            transport_get(ctx, (enum transport_kind)kind, text);
        tryst_transport_info info = {.struct_size = sizeof info,
                                     .name = name,
                                     .available = ops != NULL,
                                     .reason = text};
        for (uint32_t i = 0; ops && i < ctx->wiring->rails.count; i++)
            info.rails += ctx->wiring->rails.all[i]->ops == ops;
        stop = fn(arg, &info);
    }
    return stop;
}
