/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rails of a context: interfaces, their announcement, and their workers.
 *
 * Idea: interfaces are chosen once, before the ranks meet, and each of their addresses
 * counts as a NIC. A rail is opened, and its module loaded, when the first peer needs
 * that transport at that NIC. This runs foreign code and may take minutes, so a separate
 * thread does it (opener.h):
 *
 *     CLOSED ──need──▶ STARTING ──▶ OPEN            peers wait: PEER_EP_STARTING
 *        ▲                 │
 *        └──── failed ─────┤
 *                          └─ too long ─▶ LATE ──▶ OPEN, or CLOSED
 *                                                   peers use the next transport
 *
 * CLOSED: starts[kind][nic] is NULL. STARTING, LATE: it is pending. OPEN: its rail is
 * in `all`.
 *
 * Invariants: NIC i of a network transport is address i, as announced. A fabric gets no
 * other interface than that of its rail's NIC.
 */
#include "rails.h"

#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "context.h"
#include "core/memory/alloc.h"
#include "core/net/netif.h"
#include "core/net/netif_choose.h"
#include "core/os/descriptors.h"
#include "opener.h"
#include "plan_take.h"
#include "rendezvous/peer/group.h"
#include "rendezvous/progress/progress.h"
#include "rendezvous/progress/submission.h"
#include "rendezvous/rendezvous.h"
#include "transports/memory/memory.h"
#include "transports/module_load.h"

static_assert(sizeof((struct rail *)0)->interface_name == NETIF_NAME_BYTES, "its name");
static_assert(TRANSPORT_SELF == 0 && TRANSPORT_SHM == 1,
              "their rails have these indices");
static_assert(HOST_RAILS_MAX <= LINK_TCP_MAX, "links listen at each rail's address");

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
        status = netif_rails(chosen, err, &ctx->wiring->rails.interfaces);
    netif_list_close(chosen);
    return status;
}

/* Return the number of NICs. */
static uint32_t nics_count(const tryst_ctx *ctx)
{
    const struct netif_list *list = ctx->wiring->rails.interfaces;
    return list->count < HOST_RAILS_MAX ? (uint32_t)list->count : HOST_RAILS_MAX;
}

void rails_link_addresses(const tryst_ctx *ctx, struct link_tcp *tcp)
{
    const struct netif_list *list = ctx->wiring->rails.interfaces;
    for (tcp->count = 0; tcp->count < nics_count(ctx); tcp->count++)
        tcp->addresses[tcp->count] = list->items[tcp->count].address;
}

static struct rail_address rail_address_of(const struct netif *netif)
{
    const struct sockaddr_in *v4 = (const void *)&netif->address;
    const struct sockaddr_in6 *v6 = (const void *)&netif->address;
    uint64_t mbit = netif->speed_bits_per_s / 1000000;
    struct rail_address rail = {.family = netif->family == AF_INET ? 4 : 6,
                                .prefix_bits = (uint8_t)netif->prefix_bits,
                                .flags = netif->tunnel ? RAIL_TUNNEL : 0,
                                .speed_mbit_per_s =
                                    mbit < UINT32_MAX ? (uint32_t)mbit : UINT32_MAX};
    if (rail.family == 4)
        memcpy(rail.ip, &v4->sin_addr, 4);
    else
        memcpy(rail.ip, &v6->sin6_addr, 16);
    return rail;
}

void rails_announce(const tryst_ctx *ctx, struct host_identity *identity)
{
    const struct netif *items = ctx->wiring->rails.interfaces->items;
    identity->rails_count = nics_count(ctx);
    for (uint32_t i = 0; i < identity->rails_count; i++) {
        uint8_t first = 0;
        while (items[first].index != items[i].index)
            first++;
        identity->rails[i] = rail_address_of(&items[i]);
        identity->rails[i].interface = first;
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

/* ---- a start, in the opener's thread ----------------------------------------------- */

/* The start of one rail. */
struct rails_start {
    struct opener opener;
    tryst_ctx *ctx; /**< not for the thread */
    enum transport_kind kind;
    uint32_t nic;
    /* True if descriptors 0 to 2 are held, from the start of a fabric until its rail has
     * closed: the fabric may open sockets at any time. */
    bool holds_low;
    /* True once the time of RAILS_START_TIMES has passed and was reported; of the
     * progress domain. */
    bool late;
    struct {
        struct poller *poller; /**< passed on, not used */
        struct netif netif;    /**< of the NIC */
        bool has_netif; /**< false: the transport uses no network, or there is none */
        uint32_t index;
        bool own_shm_allowed;
    } in;
    struct {
        struct rail *rail;             /**< NULL: it could not be opened */
        tryst_status status;           /**< of the opening */
        char text[TRANSPORT_TEXT_MAX]; /**< the reason of a failure; "": not known */
        size_t interfaces; /**< number of this host's interfaces; 0: not counted */
    } out;
};

/* Open a rail of `ops`, if the process has room for one more. */
static tryst_status rail_make(const struct transport_ops *ops,
                              const struct rail_params *params, struct rail **rail_p)
{
    if (params->index >= MEMORY_RAILS_MAX) {
        snprintf(params->text, TRANSPORT_TEXT_MAX,
                 "this process has %d rails; name fewer interfaces in TRYST_NET",
                 MEMORY_RAILS_MAX);
        return TRYST_E_UNSUPPORTED;
    }
    return transport_rail_open(ops, params, rail_p);
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
    const struct netif *netif = start->in.has_netif ? &start->in.netif : NULL;
    char found[TRANSPORT_TEXT_MAX];
    const struct rail_params params = {
        .host = &opener->host,
        .events = rendezvous_rail_events,
        .poller = start->in.poller,
        .interface_name = netif ? netif->name : NULL,
        .interface_address = netif ? (const struct sockaddr *)&netif->address : NULL,
        .index = start->in.index,
        .first = start->nic == 0,
        .text = start->out.text,
        .own_shm_allowed = start->in.own_shm_allowed};
    const struct transport_ops *ops = transport_get(&opener->host, start->kind, found);
    start->out.status = !ops ? TRYST_E_UNSUPPORTED
                        : opener_stops(opener)
                            ? TRYST_E_CONTEXT
                            : rail_make(ops, &params, &start->out.rail);
    if (start->out.status != TRYST_OK)
        start->out.rail = NULL;
    if (!ops)
        memcpy(start->out.text, found, sizeof start->out.text);
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

/* Close the rail of a start that a close of the group left behind. */
static void start_undo(struct opener *opener)
{
    struct rails_start *start = container_of(opener, struct rails_start, opener);
    if (start->out.rail)
        start->out.rail->ops->rail_close(start->out.rail);
    start_free(start);
}

/* ---- a start has ended ------------------------------------------------------------- */

/* Log a start that took longer than OPENER_SLOW_NS. One rank of a host warns: the
 * interfaces are the same for all of its ranks. */
static void slow_report(const struct rails_start *start)
{
    const struct tryst_group *group = start->ctx->group;
    double seconds = (double)start->opener.spent_ns / 1e9;
    tryst_log_level level =
        group && group->roster.local_rank > 0 ? TRYST_LOG_INFO : TRYST_LOG_WARN;
    if (start->opener.spent_ns > OPENER_SLOW_NS)
        LOG_AT(&start->ctx->log, level,
               "%s took %.1f s to start on %s; this host has %zu network interface%s, "
               "and TRYST_NET names those to use",
               transport_kind_name(start->kind), seconds,
               start->in.has_netif ? start->in.netif.name : "this host",
               start->out.interfaces, start->out.interfaces == 1 ? "" : "s");
}

/* Return the rate of a rail: its interface's or, where that is lower, the plan's; 0:
 * not known. */
static uint64_t rail_bytes_per_s(const struct rails_start *start)
{
    const struct tryst_group *group = start->ctx->group;
    if (!start->in.has_netif)
        return 0;
    uint64_t own = start->in.netif.speed_bits_per_s / 8;
    uint64_t planned = group && group->plan ? group->plan->out_bytes_per_s : 0;
    return !planned || (own && own < planned) ? own : planned;
}

/* Attach the rail that the thread opened, and hand it to rendezvous. */
static tryst_status opened_rail_add(const struct rails_start *start)
{
    struct rails *rails = &start->ctx->wiring->rails;
    struct rail *rail = start->out.rail;
    rail->bytes_per_s = rail_bytes_per_s(start);
    if (start->in.has_netif)
        memcpy(rail->interface_name, start->in.netif.name, sizeof rail->interface_name);
    tryst_status status =
        rail->ops->rail_attach ? rail->ops->rail_attach(rail) : TRYST_OK;
    if (status != TRYST_OK) {
        rail->ops->rail_close(rail);
        return status;
    }
    rails->all[rails->count++] = rail;
    rendezvous_rail_add(start->ctx->rdv, (int)start->kind, start->nic, rail);
    return TRYST_OK;
}

/* Hand the rail to the context. `text` gets the reason of a failure. */
static tryst_status start_rail_add(struct rails_start *start, char *text)
{
    slow_report(start);
    tryst_status status = start->out.status;
    if (status == TRYST_OK)
        status = opened_rail_add(start);
    const char *reason = start->out.text[0] ? start->out.text
                         : descriptors_left(RAIL_DESCRIPTORS)
                             ? tryst_status_str(status)
                             : "few descriptors are left; raise the limit (ulimit -n)";
    if (status != TRYST_OK && start->in.has_netif)
        snprintf(text, TRANSPORT_TEXT_MAX, "cannot use %s: %.128s", start->in.netif.name,
                 reason);
    else if (status != TRYST_OK)
        snprintf(text, TRANSPORT_TEXT_MAX, "%s", reason);
    return status;
}

/* End a start: free it if no rail opened, so that the next need starts the fabric
 * again; else keep it as long as its rail. */
static tryst_status start_end(struct rails_start *start, char *text)
{
    tryst_status status = start_rail_add(start, text);
    if (status != TRYST_OK) {
        start->ctx->wiring->rails.starts[start->kind][start->nic] = NULL;
        start_free(start);
    }
    return status;
}

static void start_ended(struct opener *opener)
{
    struct rails_start *start = container_of(opener, struct rails_start, opener);
    struct rendezvous *rdv = start->ctx->rdv;
    int kind = (int)start->kind;
    uint32_t nic = start->nic;
    char text[TRANSPORT_TEXT_MAX] = "";
    tryst_status status = start_end(start, text);
    rendezvous_rail_opened(rdv, kind, nic, status, text);
}

/* ---- beginning a start ------------------------------------------------------------- */

static const struct opener_ops start_ops = {start_run, start_ended, start_undo};

/* Set the interface of a start. Without one, which is up, the fabric chooses. */
static void netif_set(struct rails_start *start)
{
    const tryst_ctx *ctx = start->ctx;
    start->in.has_netif =
        transport_kind_uses_network(start->kind) && start->nic < nics_count(ctx);
    if (start->in.has_netif)
        start->in.netif = ctx->wiring->rails.interfaces->items[start->nic];
}

/* Return the rail index of this kind and NIC. The transports without a network have an
 * index of their own, which no number of interfaces can take. */
static uint32_t index_get(struct rails *rails, enum transport_kind kind, uint32_t nic)
{
    if (!transport_kind_uses_network(kind))
        return (uint32_t)kind;
    if (!rails->indices[kind][nic])
        rails->indices[kind][nic] = (uint8_t)++rails->indices_count;
    return TRANSPORT_SHM + rails->indices[kind][nic];
}

static struct rails_start *start_new(tryst_ctx *ctx, enum transport_kind kind,
                                     uint32_t nic)
{
    struct rails_start *start = mem_zalloc(sizeof *start);
    if (!start || opener_init(&start->opener, &start_ops, transport_kind_name(kind),
                              ctx) != TRYST_OK) {
        mem_free(start);
        return NULL;
    }
    start->ctx = ctx;
    start->kind = kind;
    start->nic = nic;
    start->holds_low = transport_kind_uses_network(kind);
    if (start->holds_low)
        descriptors_low_hold();
    netif_set(start);
    start->in.poller = &ctx->poller;
    start->in.own_shm_allowed = !*config_str(ctx->config, CONFIG_HOST_ID);
    start->in.index = index_get(&ctx->wiring->rails, kind, nic);
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

/* Open a built-in rail at once, and a fabric's in a thread, so that waits and other peers
 * are not delayed. */
tryst_status rail_open(tryst_ctx *ctx, int kind, uint32_t nic, char *text)
{
    struct rails_start **start_p = &ctx->wiring->rails.starts[kind][nic];
    if (*start_p)
        return start_poll(ctx, *start_p, text);
    struct rails_start *start = *start_p = start_new(ctx, (enum transport_kind)kind, nic);
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

/* Wait for a start under way, and leave it to its thread at `until_ns`. */
static void start_settle(tryst_ctx *ctx, struct rails_start **start_p, uint64_t until_ns)
{
    struct rails_start *start = *start_p;
    if (!start || !opener_pending(&start->opener))
        return;
    const char *name = transport_kind_name(start->kind);
    uint64_t begin_ns = start->opener.begin_ns;
    uint64_t wait_ns = clock_monotonic_ns();
    opener_wait(&start->opener, until_ns);
    if (clock_since_ns(wait_ns, clock_monotonic_ns()) > OPENER_SLOW_NS)
        LOG_WARN(&ctx->log,
                 "the close of the group has waited %.1f s for the start of %s",
                 (double)clock_since_ns(wait_ns, clock_monotonic_ns()) / 1e9, name);
    if (!opener_leave(&start->opener))
        return; /* `run` has ended, and the caller's pass takes the rail */
    *start_p = NULL;
    LOG_WARN(&ctx->log,
             "the group closes while %s still starts, after %.1f s; a thread stays "
             "behind until the start ends, and closes the rail",
             name, (double)clock_since_ns(begin_ns, clock_monotonic_ns()) / 1e9);
}

void rails_settle(tryst_ctx *ctx)
{
    uint64_t until_ns =
        clock_monotonic_ns() + config_time_ns(ctx->config, CONFIG_PEER_TIMEOUT);
    for (int kind = 0; kind < TRANSPORT_KINDS; kind++)
        for (uint32_t nic = 0; nic < HOST_RAILS_MAX; nic++)
            start_settle(ctx, &ctx->wiring->rails.starts[kind][nic], until_ns);
    (void)progress_pass(ctx->rdv);
}

void rails_close(tryst_ctx *ctx)
{
    struct wiring *wiring = ctx->wiring;
    while (wiring->rails.count) {
        struct rail *rail = wiring->rails.all[--wiring->rails.count];
        memory_rail_forget(wiring->memory, rail);
        rail->ops->rail_close(rail);
    }
    for (int kind = 0; kind < TRANSPORT_KINDS; kind++)
        for (uint32_t nic = 0; nic < HOST_RAILS_MAX; nic++) {
            if (wiring->rails.starts[kind][nic])
                start_free(wiring->rails.starts[kind][nic]);
            wiring->rails.starts[kind][nic] = NULL;
        }
    memset(wiring->rails.indices, 0, sizeof wiring->rails.indices);
    wiring->rails.indices_count = 0;
}

void rails_forked(const tryst_ctx *ctx)
{
    for (int kind = 0; kind < TRANSPORT_KINDS; kind++)
        for (uint32_t nic = 0; nic < HOST_RAILS_MAX; nic++) {
            const struct rails_start *start = ctx->wiring->rails.starts[kind][nic];
            if (start && start->holds_low)
                descriptors_low_release();
        }
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
