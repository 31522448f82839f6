/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tryst_group_open and tryst_group_close: the ranks come together, and part.
 *
 * Idea: what this rank announces is gathered with what the others do (bootstrap, roster); everything
 * after that is connected on demand.
 * Invariant: a group that fabrics still hold on to is not freed: its close says so, and can be tried
 * again.
 * Callers: users; tryst_close.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "commsched/coll/coll.h"
#include "commsched/progress/progress.h"
#include "commsched/progress/thread.h"
#include "context.h"
#include "core/memory/alloc.h"
#include "core/os/descriptors.h"
#include "core/os/random.h"
#include "core/text/params.h"
#include "core/text/refuse.h"
#include "group_plan.h"
#include "rails.h"
#include "rendezvous/bootstrap/launch/bootstrap_env.h"
#include "rendezvous/bootstrap/roster/roster_gather.h"
#include "rendezvous/bootstrap/session/bootstrap.h"
#include "rendezvous/bootstrap/session/bootstrap_net.h"
#include "rendezvous/group_info.h"
#include "rendezvous/live_context.h"
#include "rendezvous/membership.h"
#include "rendezvous/peer/clock_offset.h"
#include "rendezvous/peer/group.h"
#include "rendezvous/rendezvous.h"
#include "rendezvous/submission.h"
#include "topology/net/port_range.h"
#include "transports/fault_script.h"

/** After our LEAVE, and for the last frames before it, peers get this long to read them. */
#define LEAVE_NS (2 * NS_PER_S)
/** Closing endpoints by force needs no peer: longer than this means that a fabric hangs. */
#define CUT_NS (10 * NS_PER_S)

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
    status = identity_local(ctx->config, rails_available(ctx), &entry->host);
    if (status != TRYST_OK)
        return err_set(err, status, "this host's identity could not be read from /proc");
    rails_announce(ctx, &entry->host);
    /* Where rank 0 serves no link may listen in passing. */
    struct link_tcp tcp = {.count = 0, .avoid = bootstrap_address_port(params->address)};
    status =
        port_range_parse(config_str(ctx->config, CONFIG_PORT_RANGE), err, &tcp.ports);
    if (status != TRYST_OK)
        return status;
    rails_link_addresses(ctx, &tcp);
    status = rendezvous_listen(ctx->rdv, &tcp, &entry->host.link);
    if (status != TRYST_OK)
        return err_set(err, status, "no listening socket for links could be made: %s%s",
                       err_reason(errno),
                       errno == EADDRINUSE && tcp.ports.first
                           ? "; every port of TRYST_PORT_RANGE is taken: widen it"
                           : "");
    return TRYST_OK;
}

/** Bring the ranks together; fills roster, cookie and plan. */
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
    tryst_status status =
        entry_make(ctx, bootstrap_params, params->device_prefix, mine, err);
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
    if (status == TRYST_OK && bootstrap) {
        status =
            group_plan_open(bootstrap, bootstrap_params, ctx->config, err, &group->plan);
        if (status != TRYST_OK)
            roster_close(&group->roster);
    }
    bootstrap_close(bootstrap, status == TRYST_OK ? NULL : err);
    mem_free(mine);
    return status;
}

/** Where rank, size and the way to the others come from. */
static tryst_status group_params_take(tryst_ctx *ctx, const tryst_group_params *params,
                                      struct bootstrap_env *env, struct err *err)
{
    if (params->allgather) {
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
        tryst_status status =
            bootstrap_env_read(ctx->config, params->timeout_ns, &ctx->log, err, env);
        if (status != TRYST_OK)
            return status;
    }
    if (params->timeout_ns)
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

/** Give the lanes of the plan's pairs their rates. A lane without memory has none: windows alone bound it. */
static void pace_start(const tryst_ctx *ctx, tryst_group *group)
{
    const struct group_plan *plan = group->plan;
    if (!plan || plan->flags & COMPILED_RATES_ASSUMED ||
        !config_bool(ctx->config, CONFIG_PACE))
        return;
    for (uint32_t k = 0; k < plan->pairs_count; k++) {
        const struct compiled_pair *pair = &plan->pairs[k];
        if (pair->from != (uint32_t)group->roster.rank || !pair->link_bytes_per_s)
            continue;
        tryst_status status =
            rendezvous_group_pace(group, (int)pair->to, group_plan_pace(plan, pair->to),
                                  pair->link_bytes_per_s);
        if (status != TRYST_OK)
            LOG_WARN(&ctx->log, "collectives keep no pace towards rank %u: %s", pair->to,
                     tryst_status_name(status));
    }
}

static tryst_status group_open(tryst_ctx *ctx, const tryst_group_params *params,
                               struct tryst_group *group, struct err *err)
{
    struct bootstrap_env *env = mem_zalloc(sizeof *env);
    if (!env)
        return err_set(err, TRYST_E_NOMEM, "no memory for the bootstrap");
    tryst_status status = group_params_take(ctx, params, env, err);
    if (status == TRYST_OK)
        status = rails_choose(ctx, err);
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
    pace_start(ctx, group);
    if (group->plan)
        colls_plan_set(ctx->wiring->colls, &group->plan->coll);
    bootstrap_env_wipe(env);
    mem_free(env);
    return TRYST_OK;
close_roster:
    group_plan_close(group->plan);
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
    tryst_group_params own;
    if (!ctx || !group_p)
        return refuse_null("open a group", ctx ? "group_p" : "ctx");
    tryst_status status = rendezvous_usable(ctx->rdv);
    if (status != TRYST_OK)
        return refuse_unusable("open a group", status);
    if (params_read(&own, sizeof own, params, "tryst_group_params", &err) != TRYST_OK)
        return refuse_err(&err, TRYST_E_INVALID);
    if (ctx->group)
        return refuse(TRYST_E_INVALID,
                      "cannot open a group: the context has one; close that first");
    struct tryst_group *group = mem_zalloc(sizeof *group);
    if (!group)
        return refuse_nomem("open a group");
    group->ctx = ctx;
    status = group_open(ctx, &own, group, &err);
    if (status == TRYST_OK) {
        ctx->group = group;
        if (config_bool(ctx->config, CONFIG_PROGRESS_THREAD))
            status = progress_thread_start(ctx);
    }
    if (status == TRYST_OK) {
        *group_p = group;
        return status;
    }
    (void)refuse_err(&err, status);
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
    rendezvous_group_leave_send(ctx->rdv);
    progress_until(ctx, is_read, ctx, LEAVE_NS);
    descriptors_low_refresh(); /* UCX opens sockets in its closes, too */
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
    if (!progress_lock_take(ctx, CUT_NS)) {
        LOG_ERROR(&ctx->log, "a group cannot be closed while another thread waits in it");
        return;
    }
    if (!ctx->cut)
        group_cut(ctx);
    else if (!is_gone(ctx)) /* a second try: perhaps the fabric has let go meanwhile */
        progress_until(ctx, is_gone, ctx, 0);
    if (!is_gone(ctx)) {
        progress_lock_put(ctx);
        return;
    }
    ctx->cut = false;
    rails_settle(ctx);
    rendezvous_group_close(ctx->rdv);
    colls_group_close(ctx->wiring->colls);
    rendezvous_listen_stop(ctx->rdv);
    rails_close(ctx);
    rendezvous_rails_forget(ctx->rdv);
    rendezvous_live_close(ctx->rdv);
    progress_lock_put(ctx);
    group_plan_close(group->plan);
    roster_close(&group->roster);
    ctx->group = NULL;
    mem_free(group);
}
