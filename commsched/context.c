/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tryst_open, tryst_group_open and their ends: the one file that wires the layers.
 *
 * Idea: a context is opened without any peer; the group brings identities together, and only what
 * they show to be needed is opened: rails at first use, modules with them.
 * Invariant: everything is undone in reverse order, also when it fails half-way.
 * Callers: users. It alone includes the headers of every layer.
 */
#include "context.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/descriptors.h"
#include "core/err.h"
#include "core/random.h"
#include "dispatch.h"
#include "rendezvous/bootstrap/bootstrap.h"
#include "rendezvous/bootstrap/roster.h"
#include "rendezvous/live_context.h"
#include "rendezvous/membership.h"
#include "rendezvous/peer/clock_offset.h"
#include "rendezvous/peer/group.h"
#include "rendezvous/rendezvous.h"
#include "rendezvous/submission.h"
#include "topology/net/netif.h"
#include "topology/net/netif_choose.h"
#include "topology/net/port_range.h"
#include "transports/device.h"
#include "transports/fault.h"
#include "transports/fault_script.h"
#include "transports/link/link_listen.h"
#include "transports/memory/memory.h"
#include "transports/memory/memory_pool.h"
#include "transports/memory_kinds.h"
#include "transports/module_load.h"
#include "transports/select.h"
#include "transports/transport.h"
#include "tryst/device.h"
#include "tryst/pool.h"

/** After our LEAVE, and for the last frames before it, peers get this long to read them. */
#define LEAVE_NS (2 * NS_PER_S)
/** Closing endpoints by force needs no peer: longer than this means that a fabric hangs. */
#define CUT_NS (10 * NS_PER_S)

enum { RAILS_MAX = 8 };
/* A rail takes up to 16 of them (UCX with two interfaces). */
enum { RAIL_DESCRIPTORS = 32 };

struct wiring {
    tryst_host host;
    struct memory_cache *memory;
    /* Chosen by TRYST_NET or by default, one address each: the rails of every network
     * transport, in the order in which they are announced. NULL: no group yet. */
    struct netif_list *interfaces;
    struct rail *rails[TRANSPORT_KINDS * RAILS_MAX];
    uint32_t rails_count;
};

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
    if (!ops && module_load(&ctx->wiring->host, name, &ops, text) != TRYST_OK)
        return NULL;
    return ops->probe(&ctx->wiring->host, text) == TRYST_OK ? ops : NULL;
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
        .index = wiring->rails_count,
        .own_shm_allowed = !*config_str(ctx->config, CONFIG_HOST_ID)};
    if (wiring->rails_count == MEMORY_RAILS_MAX)
        return TRYST_E_UNSUPPORTED;
    tryst_status status = rail_start(ctx, ops, &params, &rail);
    if (status != TRYST_OK)
        return status;
    wiring->rails[wiring->rails_count++] = rail;
    return rendezvous_rail_add(ctx->rdv, kind, rail);
}

/** One rail for each interface. What cannot be opened leaves its place empty, so that the others
 *  keep the numbers that were announced. TRYST_OK when at least one could. */
static tryst_status rails_of_interfaces(tryst_ctx *ctx, enum transport_kind kind,
                                        const struct transport_ops *ops)
{
    const struct netif_list *interfaces = ctx->wiring->interfaces;
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

/** rendezvous needs transport `kind` for the first time. Where there is one interface and nobody
 *  named it, the fabric sees the machine as it is. */
static tryst_status rails_open(void *owner, int kind, char *text)
{
    tryst_ctx *ctx = owner;
    const struct netif_list *interfaces = ctx->wiring->interfaces;
    bool network = kind != TRANSPORT_SELF && kind != TRANSPORT_SHM && interfaces;
    const struct transport_ops *ops = transport_get(ctx, (enum transport_kind)kind, text);
    tryst_status status;
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

static void rails_close(tryst_ctx *ctx)
{
    struct wiring *wiring = ctx->wiring;
    while (wiring->rails_count) {
        struct rail *rail = wiring->rails[--wiring->rails_count];
        memory_rail_forget(wiring->memory, rail);
        rail->ops->rail_close(rail);
    }
}

/** What this process could use, without loading any module. */
static uint32_t transports_available(tryst_ctx *ctx)
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
        tryst_transport_info info = {
            .name = name, .available = ops != NULL, .reason = text};
        for (uint32_t i = 0; ops && i < ctx->wiring->rails_count; i++)
            info.rails += ctx->wiring->rails[i]->ops == ops;
        stop = fn(arg, &info);
    }
    return stop;
}

/* ---- open --------------------------------------------------------------------------------- */

/** To the caller who gave a text for it, else to the log. */
static void error_tell(const struct err *err, tryst_status status, const struct log *log,
                       char *text, size_t capacity)
{
    const char *sentence = err->text[0] ? err->text : tryst_status_str(status);
    if (text && capacity)
        snprintf(text, capacity, "%s", sentence);
    else
        LOG_ERROR(log, "%s", sentence);
}

static void forked_child(void *arg)
{
    tryst_ctx *ctx = arg;
    rendezvous_forked(ctx->rdv);
    close(ctx->poller.timer.fd);
    close(ctx->poller.wake.fd);
    close(ctx->poller.epoll_fd);
}

static tryst_status config_take(tryst_ctx *ctx, const tryst_open_params *params,
                                struct err *err)
{
    ctx->log = (struct log)LOG_INIT;
    ctx->log.sink = params ? params->log_fn : NULL;
    ctx->log.arg = params ? params->log_arg : NULL;
    tryst_status status = params && params->config
                              ? config_copy(params->config->config, &ctx->config)
                              : config_open(&ctx->log, err, &ctx->config);
    if (status != TRYST_OK)
        return err_set(err, status, "%s",
                       err->text[0] ? err->text : "no memory for the settings");
    ctx->log.level =
        (tryst_log_level)(TRYST_LOG_ERROR + config_enum(ctx->config, CONFIG_LOG_LEVEL));
    return TRYST_OK;
}

/** Settings with a grammar of their own: what is wrong with them is said at once. */
static tryst_status settings_check(const tryst_ctx *ctx, struct err *err)
{
    struct fault_script script;
    struct port_range ports;
    char why[TRANSPORT_TEXT_MAX];
    if (fault_script_parse(config_str(ctx->config, CONFIG_FAULT), &script, why) !=
        TRYST_OK)
        return err_set(err, TRYST_E_CONFIG, "TRYST_FAULT: %s", why);
    return port_range_parse(config_str(ctx->config, CONFIG_PORT_RANGE), err, &ports);
}

static tryst_status trace_take(tryst_ctx *ctx)
{
    if (!config_bool(ctx->config, CONFIG_TRACE))
        return TRYST_OK;
    return trace_open((size_t)config_int(ctx->config, CONFIG_TRACE_EVENTS), NULL,
                      &ctx->trace);
}

static tryst_status engine_open(tryst_ctx *ctx, struct err *err)
{
    struct dispatch_params dispatch = {
        .trace = ctx->trace,
        .window_bytes = config_bytes(ctx->config, CONFIG_WINDOW_BYTES),
        .rail_window_bytes = config_bytes(ctx->config, CONFIG_RAIL_WINDOW_BYTES),
        .window_is_set = config_is_set(ctx->config, CONFIG_WINDOW_BYTES),
        .start = transfer_start};
    tryst_status status = dispatch_open(&dispatch, &ctx->dispatch);
    if (status != TRYST_OK)
        return err_set(err, status, "no memory for the dispatch");
    struct rendezvous_params params = {.owner = ctx,
                                       .config = ctx->config,
                                       .log = &ctx->log,
                                       .poller = &ctx->poller,
                                       .trace = ctx->trace,
                                       .dispatch = &dispatch_ops,
                                       .dispatch_arg = ctx->dispatch,
                                       .rails_open = rails_open,
                                       .host = &ctx->wiring->host,
                                       .memory = ctx->wiring->memory,
                                       .enter = progress_enter,
                                       .leave = progress_leave,
                                       .ack_timer_call = ack_timer_call};
    return rendezvous_open(&params, err, &ctx->rdv);
}

/** For regions that are released (memory.h). */
static enum memory_entry domain_enter(void *arg)
{
    tryst_ctx *ctx = arg;
    if (progress_role_is_mine(ctx))
        return MEMORY_INSIDE;
    while (!progress_role_take(ctx, TRYST_FOREVER))
        ;
    return MEMORY_ENTERED;
}

static void domain_leave(void *arg)
{
    progress_role_put(arg);
}

static tryst_status wiring_open(tryst_ctx *ctx, struct err *err)
{
    ctx->wiring = mem_zalloc(sizeof *ctx->wiring);
    if (!ctx->wiring)
        return err_set(err, TRYST_E_NOMEM, "no memory for the context");
    module_host_init(&ctx->wiring->host, ctx->config, &ctx->log);
    tryst_status status =
        memory_cache_open(memory_ops_load, &ctx->wiring->host, &ctx->wiring->memory);
    if (status == TRYST_OK) {
        memory_cache_guard(ctx->wiring->memory,
                           &(struct memory_domain){domain_enter, domain_leave, ctx});
        return status;
    }
    mem_free(ctx->wiring);
    return err_set(err, status, "no memory for the registration cache");
}

static void wiring_close(tryst_ctx *ctx)
{
    rails_close(ctx);
    memory_cache_close(ctx->wiring->memory);
    netif_list_close(ctx->wiring->interfaces);
    mem_free(ctx->wiring);
}

static tryst_status ctx_open(tryst_ctx *ctx, const tryst_open_params *params,
                             struct err *err)
{
    tryst_status status = config_take(ctx, params, err);
    if (status != TRYST_OK)
        return status;
    status = settings_check(ctx, err);
    if (status != TRYST_OK)
        goto close_config;
    status = poller_open(&ctx->poller);
    if (status != TRYST_OK) {
        err_set(err, status, "epoll, eventfd or timerfd: %s", err_reason(errno));
        goto close_config;
    }
    status = trace_take(ctx);
    if (status != TRYST_OK) {
        err_set(err, status, "no memory for the trace");
        goto close_poller;
    }
    status = wiring_open(ctx, err);
    if (status != TRYST_OK)
        goto close_trace;
    status = engine_open(ctx, err);
    if (status != TRYST_OK)
        goto close_wiring;
    status = progress_open(ctx);
    if (status != TRYST_OK) {
        err_set(err, status, "a mutex could not be made");
        goto close_engine;
    }
    status = ack_timer_open(ctx);
    if (status != TRYST_OK) {
        err_set(err, status, "a mutex could not be made");
        goto close_progress;
    }
    ctx->fork.child = forked_child;
    ctx->fork.arg = ctx;
    status = fork_handler_add(&ctx->fork);
    if (status == TRYST_OK)
        return status;
    err_set(err, status, "the fork handler could not be registered");
    ack_timer_close(ctx);
close_progress:
    progress_close(ctx);
close_engine:
    rendezvous_close(ctx->rdv);
close_wiring:
    if (ctx->dispatch)
        dispatch_close(ctx->dispatch);
    wiring_close(ctx);
close_trace:
    trace_close(ctx->trace);
close_poller:
    poller_close(&ctx->poller);
close_config:
    config_close(ctx->config);
    return status;
}

tryst_status tryst_open(const tryst_open_params *params, tryst_ctx **ctx_p)
{
    struct err err = ERR_INIT;
    if (!ctx_p || (params && params->struct_size != sizeof *params))
        return TRYST_E_INVALID;
    tryst_ctx *ctx = mem_zalloc(sizeof *ctx);
    tryst_status status = ctx ? ctx_open(ctx, params, &err)
                              : err_set(&err, TRYST_E_NOMEM, "no memory for the context");
    if (status != TRYST_OK) {
        error_tell(&err, status, ctx ? &ctx->log : NULL, params ? params->error : NULL,
                   params ? params->error_capacity : 0);
        mem_free(ctx);
        return status;
    }
    *ctx_p = ctx;
    return TRYST_OK;
}

void tryst_close(tryst_ctx *ctx)
{
    if (!ctx)
        return;
    if (rendezvous_usable(ctx->rdv) == TRYST_E_FORKED)
        return; /* the parent's; our copy goes with the process */
    if (ctx->group)
        tryst_group_close(ctx->group);
    if (ctx->group)
        return; /* it could not be closed, and said why: what a fabric still uses must stay */
    progress_thread_stop(ctx);
    ack_timer_close(ctx);
    fork_handler_remove(&ctx->fork);
    rendezvous_refuse(ctx->rdv);
    progress_close(ctx);
    rendezvous_close(ctx->rdv);
    dispatch_close(ctx->dispatch);
    wiring_close(ctx);
    trace_close(ctx->trace);
    poller_close(&ctx->poller);
    config_close(ctx->config);
    mem_free(ctx);
}

/* ---- group -------------------------------------------------------------------------------- */

/** Interfaces that TRYST_NET allows, or all that lead out of this machine. */
static tryst_status interfaces_take(tryst_ctx *ctx, struct err *err)
{
    struct netif_list *all = NULL;
    struct netif_list *chosen = NULL;
    if (ctx->wiring->interfaces)
        return TRYST_OK;
    tryst_status status = netif_list_open(err, &all);
    if (status == TRYST_OK)
        status = netif_select(all, config_str(ctx->config, CONFIG_NET), err, &chosen);
    if (status == TRYST_OK)
        status = netif_first_each(chosen, err, &ctx->wiring->interfaces);
    netif_list_close(chosen);
    netif_list_close(all);
    return status;
}

/** Where links listen: at every rail's interface; announced is the one of the default route, else
 *  the first. */
static void listen_addresses(const tryst_ctx *ctx, struct link_tcp *tcp)
{
    const struct netif_list *list = ctx->wiring->interfaces;
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

static void rails_announce(const tryst_ctx *ctx, struct host_identity *identity)
{
    const struct netif_list *list = ctx->wiring->interfaces;
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

/** The port that rank 0 serves at, which no link may take in passing. 0: none. */
static uint16_t bootstrap_port(const struct bootstrap_params *params)
{
    const char *colon = params->address ? strrchr(params->address, ':') : NULL;
    return colon ? (uint16_t)strtoul(colon + 1, NULL, 10) : 0;
}

static tryst_status entry_make(tryst_ctx *ctx, const struct bootstrap_params *params,
                               const char *prefix, struct roster_entry *entry,
                               struct err *err)
{
    int rank = params->rank;
    memset(entry, 0, sizeof *entry);
    entry->wire_version = rendezvous_wire_version;
    if (prefix && strlen(prefix) >= sizeof entry->device_prefix)
        return err_set(err, TRYST_E_INVALID, "the device prefix is longer than %zu bytes",
                       sizeof entry->device_prefix - 1);
    if (prefix)
        snprintf(entry->device_prefix, sizeof entry->device_prefix, "%s", prefix);
    else
        snprintf(entry->device_prefix, sizeof entry->device_prefix,
                 "/job:worker/replica:0/task:%d", rank);
    tryst_status status = random_secret(&entry->incarnation, sizeof entry->incarnation);
    if (status != TRYST_OK)
        return err_set(err, status, "no random numbers for the incarnation");
    status = identity_local(ctx->config, transports_available(ctx), &entry->host);
    if (status != TRYST_OK)
        return err_set(err, status, "this host's identity could not be read from /proc");
    rails_announce(ctx, &entry->host);
    struct link_tcp tcp = {.count = 0, .avoid = bootstrap_port(params)};
    status =
        port_range_parse(config_str(ctx->config, CONFIG_PORT_RANGE), err, &tcp.ports);
    if (status != TRYST_OK)
        return status;
    listen_addresses(ctx, &tcp);
    status = rendezvous_listen(ctx->rdv, &tcp, &entry->host.link);
    if (status != TRYST_OK)
        return err_set(err, status, "no listening socket for links could be made: %s%s",
                       err_reason(errno),
                       errno == EADDRINUSE && tcp.ports.first
                           ? "; every port of TRYST_PORT_RANGE is taken: widen it"
                           : "");
    return TRYST_OK;
}

/** Bring the ranks together; fills roster and cookie. */
static tryst_status group_gather(tryst_ctx *ctx, const tryst_group_params *params,
                                 struct bootstrap_params *bootstrap_params,
                                 struct tryst_group *group, struct err *err)
{
    struct bootstrap *bootstrap = NULL;
    struct roster_entry *mine = mem_alloc(sizeof *mine);
    int rank = bootstrap_params->rank;
    int size = bootstrap_params->size;
    if (!mine)
        return err_set(err, TRYST_E_NOMEM, "no memory for this rank's entry");
    tryst_status status = entry_make(ctx, bootstrap_params,
                                     params ? params->device_prefix : NULL, mine, err);
    if (status == TRYST_OK && size > 1) {
        status = bootstrap_open(bootstrap_params, err, &bootstrap);
        bootstrap_params->listen_fd = -1; /* the bootstrap's now */
    }
    if (status == TRYST_OK)
        status =
            roster_open(bootstrap, rank, size, ctx->config, mine, err, &group->roster);
    if (status == TRYST_OK && bootstrap)
        memcpy(group->cookie, bootstrap_cookie(bootstrap), sizeof group->cookie);
    else if (status == TRYST_OK)
        status = random_secret(group->cookie, sizeof group->cookie);
    bootstrap_close(bootstrap, status == TRYST_OK ? NULL : err);
    mem_free(mine);
    return status;
}

/** Where rank, size and the way to the others come from. */
static tryst_status group_params_take(tryst_ctx *ctx, const tryst_group_params *params,
                                      struct bootstrap_env *env, struct err *err)
{
    if (params && params->allgather) {
        memset(env, 0, sizeof *env);
        env->params.rank = params->rank;
        env->params.size = params->size;
        env->params.allgather = params->allgather;
        env->params.allgather_arg = params->allgather_arg;
        env->params.listen_fd = -1;
        env->params.log = &ctx->log;
        env->local_rank = (int)config_int(ctx->config, CONFIG_LOCAL_RANK);
        env->local_size = (int)config_int(ctx->config, CONFIG_LOCAL_SIZE);
        if (params->size < 1 || params->rank < 0 || params->rank >= params->size)
            return err_set(err, TRYST_E_INVALID, "rank %d of %d", params->rank,
                           params->size);
    } else {
        tryst_status status = bootstrap_env_read(
            ctx->config, params ? params->timeout_ns : 0, &ctx->log, err, env);
        if (status != TRYST_OK)
            return status;
    }
    if (params && params->timeout_ns)
        env->params.timeout_ns = params->timeout_ns;
    return TRYST_OK;
}

/** What launcher or user say of the place on this host counts, where it is one. */
static void local_place_take(const struct bootstrap_env *env, struct roster *roster)
{
    int size = env->local_size > 0 ? env->local_size : roster->local_size;
    if (env->local_rank < 0 || env->local_rank >= size)
        return;
    roster->local_rank = env->local_rank;
    roster->local_size = size;
}

/** What TRYST_FAULT puts this rank's clock ahead. */
static int64_t clock_skew_ns(const tryst_ctx *ctx, int rank)
{
    struct fault_script script;
    char why[TRANSPORT_TEXT_MAX];
    const char *fault = config_str(ctx->config, CONFIG_FAULT);
    if (!*fault || fault_script_parse(fault, &script, why) != TRYST_OK ||
        (script.one_rank && script.rank != (uint64_t)rank))
        return 0;
    return (int64_t)(script.clock_us * NS_PER_US);
}

static tryst_status group_open(tryst_ctx *ctx, const tryst_group_params *params,
                               struct tryst_group *group, struct err *err)
{
    struct bootstrap_env *env = mem_zalloc(sizeof *env);
    if (!env)
        return err_set(err, TRYST_E_NOMEM, "no memory for the bootstrap");
    tryst_status status = group_params_take(ctx, params, env, err);
    if (status == TRYST_OK)
        status = interfaces_take(ctx, err);
    if (status != TRYST_OK)
        goto free_env;
    atomic_store_explicit(&ctx->log.rank, env->params.rank, memory_order_relaxed);
    rendezvous_clock_skew(ctx->rdv, clock_skew_ns(ctx, env->params.rank));
    rendezvous_live_open(ctx->rdv, env->params.rank, env->params.size,
                         &ctx->progress.held);
    status = group_gather(ctx, params, &env->params, group, err);
    if (status != TRYST_OK)
        goto stop_listening;
    local_place_take(env, &group->roster);
    status = rendezvous_group_open(ctx->rdv, group, err);
    if (status != TRYST_OK)
        goto close_roster;
    bootstrap_env_wipe(env);
    mem_free(env);
    return TRYST_OK;
close_roster:
    roster_close(&group->roster);
stop_listening:
    rendezvous_listen_stop(ctx->rdv);
    rendezvous_live_close(ctx->rdv);
free_env:
    bootstrap_env_wipe(env);
    mem_free(env);
    return status;
}

tryst_status tryst_group_open(tryst_ctx *ctx, const tryst_group_params *params,
                              tryst_group **group_p)
{
    struct err err = ERR_INIT;
    if (!ctx || !group_p || (params && params->struct_size != sizeof *params))
        return TRYST_E_INVALID;
    tryst_status status = rendezvous_usable(ctx->rdv);
    if (status != TRYST_OK)
        return status;
    if (ctx->group)
        return TRYST_E_INVALID;
    struct tryst_group *group = mem_zalloc(sizeof *group);
    if (!group)
        return TRYST_E_NOMEM;
    group->ctx = ctx;
    status = group_open(ctx, params, group, &err);
    if (status == TRYST_OK) {
        ctx->group = group;
        if (config_bool(ctx->config, CONFIG_PROGRESS_THREAD))
            status = progress_thread_start(ctx);
    }
    if (status == TRYST_OK) {
        *group_p = group;
        return status;
    }
    error_tell(&err, status, &ctx->log, params ? params->error : NULL,
               params ? params->error_capacity : 0);
    if (ctx->group)
        tryst_group_close(group);
    else
        mem_free(group);
    return status;
}

static bool is_quiet(void *arg)
{
    return rendezvous_group_quiet(((tryst_ctx *)arg)->rdv);
}

static bool is_read(void *arg)
{
    return rendezvous_group_read(((tryst_ctx *)arg)->rdv);
}

static bool is_gone(void *arg)
{
    return rendezvous_group_gone(((tryst_ctx *)arg)->rdv);
}

/** Leave, and close every endpoint by force. Says so when a fabric holds on to some. */
static void group_cut(tryst_ctx *ctx)
{
    char ranks[256];
    rendezvous_live_closing(ctx->rdv);
    progress_pass(ctx); /* what was submitted before the close */
    rendezvous_group_leave(ctx->rdv);
    progress_until(ctx, is_quiet, ctx, LEAVE_NS);
    rendezvous_group_tell(ctx->rdv);
    progress_until(ctx, is_read, ctx, LEAVE_NS);
    rendezvous_group_cut(ctx->rdv);
    ctx->cut = true;
    if (progress_until(ctx, is_gone, ctx, CUT_NS))
        return;
    rendezvous_group_held(ctx->rdv, ranks, sizeof ranks);
    LOG_ERROR(
        &ctx->log,
        "the group cannot be closed: after %d s a fabric has not let go of the "
        "endpoint to %s; its memory, and the buffers of operations under way there, "
        "must stay as they are until this process ends",
        (int)(CUT_NS / NS_PER_S), ranks);
}

void tryst_group_close(tryst_group *group)
{
    if (!group || rendezvous_usable(group->rdv) == TRYST_E_FORKED)
        return;
    tryst_ctx *ctx = group->ctx;
    progress_thread_stop(ctx);
    if (!progress_role_take(ctx, CUT_NS)) {
        LOG_ERROR(&ctx->log, "a group cannot be closed while another thread waits in it");
        return;
    }
    if (!ctx->cut)
        group_cut(ctx);
    else if (!is_gone(ctx)) /* a second try: perhaps the fabric has let go meanwhile */
        progress_until(ctx, is_gone, ctx, 0);
    if (!is_gone(ctx)) {
        progress_role_put(ctx);
        return;
    }
    ctx->cut = false;
    rendezvous_group_close(ctx->rdv);
    rendezvous_listen_stop(ctx->rdv);
    rails_close(ctx);
    rendezvous_rails_forget(ctx->rdv);
    rendezvous_live_close(ctx->rdv);
    progress_role_put(ctx);
    roster_close(&group->roster);
    ctx->group = NULL;
    mem_free(group);
}

/* ---- memory ------------------------------------------------------------------------------- */

tryst_status tryst_mem_register(tryst_ctx *ctx, void *data, size_t bytes,
                                tryst_memory_kind memory, int32_t device,
                                tryst_mem **mem_p)
{
    if (!ctx || !data || !bytes || !mem_p)
        return TRYST_E_INVALID;
    tryst_status status = rendezvous_usable(ctx->rdv);
    if (status != TRYST_OK)
        return status;
    return memory_register(ctx->wiring->memory, data, bytes, memory, device, mem_p);
}

tryst_status tryst_mem_alloc(tryst_ctx *ctx, size_t bytes, tryst_memory_kind memory,
                             int32_t device, void **data_p, tryst_mem **mem_p)
{
    if (!ctx || !bytes || !data_p || !mem_p)
        return TRYST_E_INVALID;
    tryst_status status = rendezvous_usable(ctx->rdv);
    if (status == TRYST_OK)
        status = memory_alloc(ctx->wiring->memory, bytes, memory, device, mem_p);
    if (status == TRYST_OK)
        *data_p = (*mem_p)->data;
    return status;
}

void tryst_mem_release(tryst_mem *mem)
{
    if (mem)
        memory_release(mem);
}

/* ---- devices ------------------------------------------------------------------------------ */

tryst_status tryst_device_count(tryst_ctx *ctx, tryst_memory_kind memory,
                                int32_t *count_p, char *text, size_t capacity)
{
    if (!ctx || !count_p)
        return TRYST_E_INVALID;
    tryst_status status = rendezvous_usable(ctx->rdv);
    return status == TRYST_OK
               ? device_count(&ctx->wiring->host, memory, count_p, text, capacity)
               : status;
}

tryst_status tryst_device_open(tryst_ctx *ctx, tryst_memory_kind memory, int32_t ordinal,
                               tryst_device **device_p, char *error, size_t capacity)
{
    if (!ctx || !device_p)
        return TRYST_E_INVALID;
    tryst_status status = rendezvous_usable(ctx->rdv);
    return status == TRYST_OK ? device_open(&ctx->wiring->host, memory, ordinal, device_p,
                                            error, capacity)
                              : status;
}

tryst_status tryst_pool_open(tryst_ctx *ctx, const tryst_pool_params *params,
                             tryst_pool **pool_p, char *error, size_t capacity)
{
    if (!ctx || !params || !pool_p)
        return TRYST_E_INVALID;
    tryst_status status = rendezvous_usable(ctx->rdv);
    return status == TRYST_OK
               ? memory_pool_open(ctx->wiring->memory, params, pool_p, error, capacity)
               : status;
}
