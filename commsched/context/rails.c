/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rails of a context: interfaces, their announcement, and their workers.
 *
 * Idea: interfaces are chosen once, before the ranks meet. A transport is opened, and its
 * module loaded, when the exchanged identities show that a peer needs the transport. This
 * runs foreign code and may take minutes, so a separate thread does it (opener.h):
 *
 *     CLOSED ──need──▶ STARTING ──▶ OPEN            peers wait: PEER_EP_STARTING
 *        ▲                 │
 *        └──── failed ─────┤
 *                          └─ too long ─▶ LATE ──▶ OPEN, or CLOSED
 *                                                   peers use the next transport
 *
 * CLOSED: starts[kind] is NULL. STARTING, LATE: starts[kind] is pending. OPEN: the rails
 * of starts[kind] are in `all`.
 *
 * Invariant: rail i of a network transport is interface i, as announced.
 */
#include "rails.h"

#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "commsched/progress/progress.h"
#include "context.h"
#include "core/memory/alloc.h"
#include "core/os/descriptors.h"
#include "opener.h"
#include "plan_take.h"
#include "rendezvous/peer/group.h"
#include "rendezvous/rendezvous.h"
#include "rendezvous/submission.h"
#include "topology/net/netif.h"
#include "topology/net/netif_choose.h"
#include "transports/fault.h"
#include "transports/fault_script.h"
#include "transports/memory/memory.h"
#include "transports/module_load.h"

/* A rail that failed to open lacked descriptors if fewer than this are left: a rail
 * takes up to 16 (UCX with two interfaces). */
enum { RAIL_DESCRIPTORS = 32 };
/* How many TRYST_CONNECT_TIMEOUT a fabric may take to start before waiting peers use
 * the next transport: 5 min by default. UCX 1.13 takes 85 s for each rail on a host
 * with 911 interfaces. */
enum { RAILS_START_TIMES = 10 };

/* ---- interfaces -------------------------------------------------------------------- */

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

/* ---- transports -------------------------------------------------------------------- */

static const struct transport_ops *builtin_find(const char *name)
{
    for (size_t i = 0; transport_builtin[i]; i++)
        if (strcmp(transport_builtin[i]->name, name) == 0)
            return transport_builtin[i];
    return NULL;
}

/* Find a built-in transport, or load the module. NULL with the reason in `text`. Any
 * thread; blocks while the module loads. */
static const struct transport_ops *transport_get(const struct tryst_host *host,
                                                 enum transport_kind kind, char *text)
{
    const char *name = transport_kind_name(kind);
    const struct transport_ops *ops = builtin_find(name);
    bool found = true;
    descriptors_low_hold();
    if (!ops)
        found = module_load(host, name, &ops, text) == TRYST_OK;
    found = found && ops->probe(host, text) == TRYST_OK;
    descriptors_low_release();
    return found ? ops : NULL;
}

/* True if rails of this kind use interfaces. */
static bool uses_network(enum transport_kind kind)
{
    return kind != TRANSPORT_SELF && kind != TRANSPORT_SHM;
}

/* ---- a start, in the opener's thread ----------------------------------------------- */

/* The start of one transport's rails. */
struct rails_start {
    struct opener opener;
    tryst_ctx *ctx; /**< not for the thread */
    enum transport_kind kind;
    /* True if descriptors 0 to 2 are held, from the start of a fabric until its last
     * rail has closed: the fabric may open sockets at any time. */
    bool holds_low;
    /* True once the time of RAILS_START_TIMES has passed and was reported; of the
     * progress domain. */
    bool late;
    struct {
        struct poller *poller; /**< passed on, not used */
        struct netif places[RAILS_MAX];
        uint32_t places_count; /**< 0: one rail, for all interfaces */
        uint32_t index;        /**< index of the first rail */
        bool own_shm_allowed;
    } in;
    struct {
        const struct transport_ops *ops;
        struct rail *rails[RAILS_MAX]; /**< NULL: this rail could not be opened */
        tryst_status statuses[RAILS_MAX];
        char text[TRANSPORT_TEXT_MAX];
        size_t interfaces; /**< number of this host's interfaces; 0: not counted */
    } out;
};

/* Open a rail of `start->out.ops`, with the faults of TRYST_FAULT if it is set
 * (settings_check has parsed it before). */
static tryst_status rail_make(const struct rails_start *start,
                              const struct rail_params *params, struct rail **rail_p)
{
    struct fault_script script;
    char why[TRANSPORT_TEXT_MAX];
    const struct transport_ops *ops = start->out.ops;
    const char *fault = config_str(start->opener.config, CONFIG_FAULT);
    if (params->index >= MEMORY_RAILS_MAX)
        return TRYST_E_UNSUPPORTED;
    if (*fault && fault_script_parse(fault, &script, why) == TRYST_OK)
        return fault_rail_open(ops, &script, params, rail_p);
    tryst_status status = ops->rail_open(params, rail_p);
    if (status == TRYST_OK)
        (*rail_p)->ops = ops;
    return status;
}

static uint32_t rails_wanted(const struct rails_start *start)
{
    return start->in.places_count ? start->in.places_count : 1;
}

static size_t interfaces_count(void)
{
    struct if_nameindex *list = if_nameindex();
    size_t count = 0;
    while (list && list[count].if_index)
        count++;
    if (list)
        if_freenameindex(list);
    return count;
}

static void start_run(struct opener *opener)
{
    struct rails_start *start = container_of(opener, struct rails_start, opener);
    start->out.ops = transport_get(&opener->host, start->kind, start->out.text);
    for (uint32_t i = 0; start->out.ops && i < rails_wanted(start); i++) {
        const struct netif *netif = start->in.places_count ? &start->in.places[i] : NULL;
        struct rail_params params = {
            .host = &opener->host,
            .events = rendezvous_rail_events,
            .poller = start->in.poller,
            .interface_name = netif ? netif->name : NULL,
            .interface_address = netif ? (const struct sockaddr *)&netif->address : NULL,
            .index = start->in.index + i,
            .own_shm_allowed = start->in.own_shm_allowed};
        start->out.statuses[i] = rail_make(start, &params, &start->out.rails[i]);
        if (start->out.statuses[i] != TRYST_OK)
            start->out.rails[i] = NULL;
    }
    if (clock_since_ns(opener->begin_ns, clock_monotonic_ns()) > OPENER_SLOW_NS)
        start->out.interfaces = interfaces_count();
}

static void start_free(struct rails_start *start)
{
    opener_close(&start->opener);
    if (start->holds_low)
        descriptors_low_release();
    mem_free(start);
}

/* Close the rails of a start that a close of the group left behind. */
static void start_undo(struct opener *opener)
{
    struct rails_start *start = container_of(opener, struct rails_start, opener);
    for (uint32_t i = 0; i < RAILS_MAX; i++)
        if (start->out.rails[i])
            start->out.rails[i]->ops->rail_close(start->out.rails[i]);
    start_free(start);
}

/* ---- a start has ended ------------------------------------------------------------- */

/* Log a start that took longer than OPENER_SLOW_NS. */
static void slow_report(const struct rails_start *start)
{
    double seconds = (double)start->opener.spent_ns / 1e9;
    if (start->opener.spent_ns > OPENER_SLOW_NS)
        LOG_WARN(&start->ctx->log,
                 "%s took %.1f s to start %u rails; this host has %zu network "
                 "interfaces; name fewer in TRYST_NET for fewer rails",
                 transport_kind_name(start->kind), seconds, rails_wanted(start),
                 start->out.interfaces);
}

/* Return the speed of the interface of rail `place` of the start; 0: not known, or no
 * interface. */
static uint64_t interface_bytes_per_s(const struct rails_start *start, uint32_t place)
{
    const struct netif_list *list = start->ctx->wiring->rails.interfaces;
    if (start->in.places_count)
        return start->in.places[place].speed_bits_per_s / 8;
    return list && list->count == 1 ? list->items[0].speed_bits_per_s / 8 : 0;
}

/* Return the rate of a rail: its interface's or, where that is lower, the plan's; 0:
 * not known. */
static uint64_t rail_bytes_per_s(const struct rails_start *start, uint32_t place)
{
    const struct tryst_group *group = start->ctx->group;
    if (!uses_network(start->kind))
        return 0;
    uint64_t own = interface_bytes_per_s(start, place);
    uint64_t planned = group && group->plan ? group->plan->out_bytes_per_s : 0;
    return !planned || (own && own < planned) ? own : planned;
}

/* Attach a rail that the thread opened, and hand it to rendezvous. */
static tryst_status opened_rail_add(tryst_ctx *ctx, enum transport_kind kind,
                                    struct rail *rail)
{
    struct rails *rails = &ctx->wiring->rails;
    tryst_status status =
        rail->ops->rail_attach ? rail->ops->rail_attach(rail) : TRYST_OK;
    if (status != TRYST_OK) {
        rail->ops->rail_close(rail);
        return status;
    }
    rails->all[rails->count++] = rail;
    return rendezvous_rail_add(ctx->rdv, kind, rail);
}

/* Take all rails that could be opened. A rail that could not leaves its place empty,
 * so that the others keep their announced numbers. TRYST_OK if at least one rail
 * opened. */
static tryst_status opened_rails_add(tryst_ctx *ctx, struct rails_start *start)
{
    tryst_status worst = TRYST_E_UNSUPPORTED;
    bool any = false;
    for (uint32_t i = 0; i < rails_wanted(start); i++) {
        struct rail *rail = start->out.rails[i];
        if (rail)
            rail->bytes_per_s = rail_bytes_per_s(start, i);
        tryst_status status =
            rail ? opened_rail_add(ctx, start->kind, rail) : start->out.statuses[i];
        any = any || status == TRYST_OK;
        if (status == TRYST_OK)
            continue;
        worst = status;
        if (!start->in.places_count)
            continue;
        LOG_WARN(&ctx->log, "%s cannot use the interface %s: %s",
                 transport_kind_name(start->kind), start->in.places[i].name,
                 tryst_status_str(status));
        (void)rendezvous_rail_add(ctx->rdv, start->kind, NULL);
    }
    if (!any)
        rendezvous_rails_none(ctx->rdv, start->kind);
    return any ? TRYST_OK : worst;
}

/* Hand the rails to the context. `text` gets the reason of a failure. */
static tryst_status start_rails_add(struct rails_start *start, char *text)
{
    tryst_ctx *ctx = start->ctx;
    slow_report(start);
    if (!start->out.ops) {
        snprintf(text, TRANSPORT_TEXT_MAX, "%s", start->out.text);
        return TRYST_E_UNSUPPORTED;
    }
    tryst_status status = opened_rails_add(ctx, start);
    if (status != TRYST_OK)
        snprintf(text, TRANSPORT_TEXT_MAX, "cannot open its rail: %s",
                 descriptors_left(RAIL_DESCRIPTORS)
                     ? tryst_status_str(status)
                     : "few descriptors are left; raise the limit (ulimit -n)");
    return status;
}

/* End a start: free it if no rail opened, so that the next need starts the fabric
 * again; else keep it as long as its rails. */
static tryst_status start_end(struct rails_start *start, char *text)
{
    tryst_status status = start_rails_add(start, text);
    if (status != TRYST_OK) {
        start->ctx->wiring->rails.starts[start->kind] = NULL;
        start_free(start);
    }
    return status;
}

static void start_ended(struct opener *opener)
{
    struct rails_start *start = container_of(opener, struct rails_start, opener);
    struct rendezvous *rdv = start->ctx->rdv;
    int kind = (int)start->kind;
    char text[TRANSPORT_TEXT_MAX] = "";
    tryst_status status = start_end(start, text);
    rendezvous_rails_opened(rdv, kind, status, text);
}

/* ---- beginning a start ------------------------------------------------------------- */

static const struct opener_ops start_ops = {start_run, start_ended, start_undo};

/* List the interfaces that get a rail each: none where there is one interface and
 * TRYST_NET is not set, so that the fabric chooses by its own rules. */
static void places_set(const tryst_ctx *ctx, struct rails_start *start)
{
    const struct netif_list *list = ctx->wiring->rails.interfaces;
    if (!uses_network(start->kind) || !list || !list->count ||
        (list->count == 1 && !*config_str(ctx->config, CONFIG_NET)))
        return;
    for (size_t i = 0; i < list->count && i < RAILS_MAX; i++)
        start->in.places[start->in.places_count++] = list->items[i];
}

static struct rails_start *start_new(tryst_ctx *ctx, enum transport_kind kind)
{
    struct rails *rails = &ctx->wiring->rails;
    struct rails_start *start = mem_zalloc(sizeof *start);
    if (!start || opener_init(&start->opener, &start_ops, ctx) != TRYST_OK) {
        mem_free(start);
        return NULL;
    }
    start->ctx = ctx;
    start->kind = kind;
    start->holds_low = kind != TRANSPORT_SELF && kind != TRANSPORT_SHM;
    if (start->holds_low)
        descriptors_low_hold();
    places_set(ctx, start);
    start->in.poller = &ctx->poller;
    start->in.own_shm_allowed = !*config_str(ctx->config, CONFIG_HOST_ID);
    if (!rails->reserved[kind]) { /* a failed start keeps its indices */
        rails->first[kind] = rails->reserved_count;
        rails->reserved[kind] = rails_wanted(start);
        rails->reserved_count += rails->reserved[kind];
    }
    start->in.index = rails->first[kind];
    return start;
}

/* Return how long a start may take before its peers use the next transport. */
static uint64_t start_limit_ns(const tryst_ctx *ctx)
{
    return RAILS_START_TIMES * config_time_ns(ctx->config, CONFIG_CONNECT_TIMEOUT);
}

/* Return TRYST_IN_PROGRESS for a pending start, or TRYST_E_UNSUPPORTED once its time
 * has passed. Rails that open after that serve later peers. */
static tryst_status start_poll(tryst_ctx *ctx, struct rails_start *start, char *text)
{
    uint64_t limit_ns = start_limit_ns(ctx);
    if (clock_since_ns(start->opener.begin_ns, clock_monotonic_ns()) < limit_ns)
        return TRYST_IN_PROGRESS;
    snprintf(text, TRANSPORT_TEXT_MAX,
             "its fabric has not started within %.0f s (%d times TRYST_CONNECT_TIMEOUT)",
             (double)limit_ns / 1e9, RAILS_START_TIMES);
    if (!start->late)
        LOG_ERROR(&ctx->log, "cannot use %s now: %s", transport_kind_name(start->kind),
                  text);
    start->late = true;
    return TRYST_E_UNSUPPORTED;
}

/* Open built-in rails at once, and a fabric's in a thread, so that waits and other
 * peers are not delayed. */
tryst_status rails_open(void *owner, int kind, char *text)
{
    tryst_ctx *ctx = owner;
    struct rails_start **start_p = &ctx->wiring->rails.starts[kind];
    if (*start_p)
        return start_poll(ctx, *start_p, text);
    struct rails_start *start = *start_p = start_new(ctx, (enum transport_kind)kind);
    if (!start) {
        snprintf(text, TRANSPORT_TEXT_MAX, "out of memory");
        return TRYST_E_NOMEM;
    }
    bool builtin = builtin_find(transport_kind_name((enum transport_kind)kind)) != NULL;
    if (!builtin && opener_start(&start->opener) == TRYST_OK)
        return TRYST_IN_PROGRESS;
    if (!builtin)
        LOG_WARN(&ctx->log,
                 "cannot create a thread to start %s: calls block until it has started",
                 transport_kind_name((enum transport_kind)kind));
    opener_run(&start->opener);
    return start_end(start, text);
}

void rails_settle(tryst_ctx *ctx)
{
    struct rails *rails = &ctx->wiring->rails;
    uint64_t until_ns =
        clock_monotonic_ns() + config_time_ns(ctx->config, CONFIG_PEER_TIMEOUT);
    for (int kind = 0; kind < TRANSPORT_KINDS; kind++) {
        struct rails_start *start = rails->starts[kind];
        if (!start || !opener_pending(&start->opener))
            continue;
        uint64_t begin_ns = start->opener.begin_ns;
        opener_wait(&start->opener, until_ns);
        if (!opener_leave(&start->opener))
            continue; /* `run` has ended, and the pass below takes the rails */
        rails->starts[kind] = NULL;
        LOG_WARN(&ctx->log,
                 "the group closes while %s still starts, after %.1f s; a thread stays "
                 "behind until the start ends, and closes the rails",
                 transport_kind_name((enum transport_kind)kind),
                 (double)clock_since_ns(begin_ns, clock_monotonic_ns()) / 1e9);
    }
    (void)progress_pass(ctx);
}

void rails_close(tryst_ctx *ctx)
{
    struct wiring *wiring = ctx->wiring;
    while (wiring->rails.count) {
        struct rail *rail = wiring->rails.all[--wiring->rails.count];
        memory_rail_forget(wiring->memory, rail);
        rail->ops->rail_close(rail);
    }
    for (int kind = 0; kind < TRANSPORT_KINDS; kind++) {
        if (wiring->rails.starts[kind])
            start_free(wiring->rails.starts[kind]);
        wiring->rails.starts[kind] = NULL;
        wiring->rails.reserved[kind] = 0;
    }
    wiring->rails.reserved_count = 0;
}

void rails_forked(const tryst_ctx *ctx)
{
    for (int kind = 0; kind < TRANSPORT_KINDS; kind++)
        if (ctx->wiring->rails.starts[kind] && ctx->wiring->rails.starts[kind]->holds_low)
            descriptors_low_release();
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
            transport_get(&ctx->wiring->host, (enum transport_kind)kind, text);
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
