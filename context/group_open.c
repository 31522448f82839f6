/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tryst_group_open and tryst_group_close.
 *
 * Idea: the ranks gather one announcement from each rank (bootstrap, roster), and connect
 * on demand after that.
 *
 * Invariant: a group with an endpoint that a fabric still holds is not freed: its close
 * logs that, and can be called again.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "collectives/coll.h"
#include "context.h"
#include "core/memory/alloc.h"
#include "core/net/port_range.h"
#include "core/os/descriptors.h"
#include "core/os/random.h"
#include "core/text/params.h"
#include "core/text/refuse.h"
#include "group_plan.h"
#include "profile_file.h"
#include "rails.h"
#include "rendezvous/bootstrap/launch/bootstrap_env.h"
#include "rendezvous/bootstrap/roster/roster_gather.h"
#include "rendezvous/bootstrap/session/bootstrap.h"
#include "rendezvous/bootstrap/session/bootstrap_net.h"
#include "rendezvous/membership.h"
#include "rendezvous/peer/clock_offset.h"
#include "rendezvous/peer/group.h"
#include "rendezvous/progress/live_context.h"
#include "rendezvous/progress/progress.h"
#include "rendezvous/progress/submission.h"
#include "rendezvous/progress/thread.h"
#include "rendezvous/rendezvous.h"

/* How long endpoints get to close by force. No peer is needed, so a longer close
 * means that a fabric hangs. */
#define CUT_NS (10 * NS_PER_S)

/* Fill in this rank's announcement, draw its key, and listen for links. */
static tryst_status entry_make(tryst_ctx *ctx, const struct bootstrap_params *params,
                               const char *prefix, uint8_t secret_p[RANK_KEY_BYTES],
                               struct roster_entry *entry, struct err *err)
{
    int rank = params->rank;
    memset(entry, 0, sizeof *entry);
    entry->wire_version = rendezvous_wire_version;
    if (prefix && strlen(prefix) >= sizeof entry->device_prefix)
        return err_set(err, TRYST_E_INVALID,
                       "cannot open a group: the device prefix is longer than %zu bytes",
                       sizeof entry->device_prefix - 1);
    if (prefix)
        snprintf(entry->device_prefix, sizeof entry->device_prefix, "%s", prefix);
    else
        snprintf(entry->device_prefix, sizeof entry->device_prefix,
                 "/job:worker/replica:0/task:%d", rank);
    tryst_status status = random_secret(&entry->incarnation, sizeof entry->incarnation);
    if (status != TRYST_OK)
        return err_set(err, status, "cannot open a group: cannot get random bytes: %s",
                       err_reason(errno));
    status = rank_key_make(secret_p, entry->key);
    if (status != TRYST_OK)
        return err_set(err, status, "cannot open a group: cannot draw a rank's key");
    status = identity_local(ctx->config, rails_available(ctx), &entry->host);
    if (status != TRYST_OK)
        return err_set(
            err, status,
            "cannot open a group: cannot read this host's identity from /proc");
    rails_announce(ctx, &entry->host);
    /* Links must not take the port of the bootstrap's server. */
    struct link_tcp tcp = {.count = 0, .avoid = bootstrap_address_port(params->address)};
    status =
        port_range_parse(config_str(ctx->config, CONFIG_PORT_RANGE), err, &tcp.ports);
    if (status != TRYST_OK)
        return status;
    rails_link_addresses(ctx, &tcp);
    status = rendezvous_listen(ctx->rdv, &tcp, &entry->host.link);
    if (status != TRYST_OK)
        return err_set(err, status, "cannot open a group: cannot listen for links: %s%s",
                       err_reason(errno),
                       errno == EADDRINUSE && tcp.ports.first
                           ? "; every port of TRYST_PORT_RANGE is taken, widen it"
                           : "");
    return TRYST_OK;
}

/* Draw the cookie of a group of one rank, which has no bootstrap. */
static tryst_status cookie_draw(uint8_t cookie_p[RANK_COOKIE_BYTES], struct err *err)
{
    tryst_status status = random_secret(cookie_p, RANK_COOKIE_BYTES);
    if (status != TRYST_OK)
        err_set(err, status, "cannot open a group: cannot get random bytes: %s",
                err_reason(errno));
    return status;
}

/* Gather all ranks' announcements, and fill in the group's roster, cookie and plan. */
static tryst_status group_gather(tryst_ctx *ctx, const tryst_group_params *params,
                                 struct bootstrap_params *bootstrap_params,
                                 struct tryst_group *group, struct err *err)
{
    struct bootstrap *bootstrap = NULL;
    struct roster_entry *mine = mem_alloc(sizeof *mine);
    int rank = bootstrap_params->rank;
    int size = bootstrap_params->size;
    if (!mine)
        return err_set(err, TRYST_E_NOMEM, "cannot open a group: out of memory");
    tryst_status status = entry_make(ctx, bootstrap_params, params->device_prefix,
                                     group->secret, mine, err);
    if (status == TRYST_OK && size > 1) {
        status = bootstrap_open(bootstrap_params, err, &bootstrap);
        bootstrap_params->listen_fd = -1; /* the bootstrap owns it now */
    }
    if (status == TRYST_OK)
        status =
            roster_open(bootstrap, rank, size, ctx->config, mine, err, &group->roster);
    if (status == TRYST_OK && bootstrap)
        memcpy(group->cookie, bootstrap_cookie(bootstrap), sizeof group->cookie);
    else if (status == TRYST_OK)
        status = cookie_draw(group->cookie, err);
    if (status == TRYST_OK && bootstrap) {
        status = group_plan_open(bootstrap, bootstrap_params, &group->roster, ctx->config,
                                 err, &group->plan);
        if (status != TRYST_OK)
            roster_close(&group->roster);
    }
    bootstrap_close(bootstrap, status == TRYST_OK ? NULL : err);
    mem_free(mine);
    return status;
}

/* Find rank, size and the bootstrap of the group: from the caller's all-gather, or
 * else from the environment. */
static tryst_status group_params_find(tryst_ctx *ctx, const tryst_group_params *params,
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
            return err_set(err, TRYST_E_INVALID,
                           "cannot open a group: not a valid rank: %d (0 to size - 1, "
                           "and size is %d)",
                           params->rank, params->size);
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

/* Take this rank's place on its host from the launcher or user, if the place is
 * valid. */
static void local_place_set(const struct bootstrap_env *env, struct roster *roster)
{
    int size = env->local_size > 0 ? env->local_size : roster->local_size;
    if (env->local_rank < 0 || env->local_rank >= size)
        return;
    roster->local_rank = env->local_rank;
    roster->local_size = size;
}

static tryst_status group_open(tryst_ctx *ctx, const tryst_group_params *params,
                               struct tryst_group *group, struct err *err)
{
    struct bootstrap_env *env = mem_zalloc(sizeof *env);
    if (!env)
        return err_set(err, TRYST_E_NOMEM, "cannot open a group: out of memory");
    tryst_status status = group_params_find(ctx, params, env, err);
    if (status == TRYST_OK)
        status = rails_choose(ctx, err);
    if (status != TRYST_OK)
        goto free_env;
    atomic_store_explicit(&ctx->log.rank, env->params.rank, memory_order_relaxed);
    rendezvous_live_open(ctx->rdv, env->params.rank, env->params.size);
    status = group_gather(ctx, params, &env->params, group, err);
    if (status != TRYST_OK)
        goto stop_listening;
    local_place_set(env, &group->roster);
    status = rendezvous_group_open(ctx->rdv, group, err);
    if (status != TRYST_OK)
        goto close_roster;
    /* relaxed: nothing else is passed on with these values. */
    atomic_store_explicit(&ctx->run, group->run, memory_order_relaxed);
    atomic_store_explicit(&ctx->size, group->roster.size, memory_order_relaxed);
    if (group->plan)
        colls_plan_set(ctx->wiring->colls, &group->plan->coll);
    profile_file_open(
        ctx, &(struct origin){group->run, group->roster.rank, group->roster.size});
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
            status = progress_thread_start(ctx->rdv);
    }
    if (status == TRYST_OK) {
        *group_p = group;
        return status;
    }
    (void)refuse_err(&err, status);
    if (ctx->group)
        tryst_group_close(group);
    else {
        rank_key_wipe(group->secret);
        mem_free(group);
    }
    return status;
}

/* Go on leaving. Returns true once no peer is waited for. */
static bool leave_is_cut(void *rdv)
{
    return rendezvous_leave_poll(rdv) >= LEAVE_CUT;
}

/* Go on leaving. Returns true once the group may be freed. */
static bool leave_is_done(void *rdv)
{
    return rendezvous_leave_poll(rdv) == LEAVE_DONE;
}

/* Make passes until done(rdv), also while another thread waits for the lock, for which
 * progress_until returns without a pass. */
static bool leave_until(struct rendezvous *rdv, bool (*done)(void *rdv),
                        uint64_t timeout_ns)
{
    uint64_t now_ns = clock_monotonic_ns(), until_ns = now_ns + timeout_ns;
    while (!progress_until(rdv, done, rdv, until_ns - now_ns)) {
        progress_pass(rdv);
        now_ns = clock_monotonic_ns();
        if (now_ns >= until_ns)
            return done(rdv);
    }
    return true;
}

/* Leave the group: wait for the peers, within the limits of leave.h, then for the
 * endpoints, at a second call for one pass. False: endpoints are still open CUT_NS after
 * the cut, or in a second call. */
static bool group_leave(tryst_ctx *ctx)
{
    char ranks[256];
    bool first = !ctx->leaving;
    if (first) {
        ctx->leaving = true;
        rendezvous_live_closing(ctx->rdv);
        progress_pass(ctx->rdv);   /* run the submissions before the close */
        descriptors_low_refresh(); /* UCX opens sockets also while closing */
    }
    while (!leave_until(ctx->rdv, leave_is_cut, LEAVE_READ_NS))
        continue;
    if (leave_until(ctx->rdv, leave_is_done, first ? CUT_NS : 0))
        return true;
    if (!first)
        return false;
    rendezvous_group_held(ctx->rdv, ranks, sizeof ranks);
    LOG_ERROR(
        &ctx->log,
        "cannot close the group: after %d s a fabric has not released the endpoint to "
        "%s; do not free the endpoint's memory and the buffers of its operations before "
        "this process ends",
        (int)(CUT_NS / NS_PER_S), ranks);
    return false;
}

static bool close_lock_take(tryst_ctx *ctx)
{
    if (progress_lock_take(ctx->rdv, CUT_NS))
        return true;
    LOG_ERROR(&ctx->log, "cannot close a group: another thread waits in it");
    return false;
}

void tryst_group_close(tryst_group *group)
{
    if (!group || rendezvous_usable(group->rdv) == TRYST_E_FORKED)
        return;
    tryst_ctx *ctx = group->ctx;
    progress_thread_stop(ctx->rdv);
    if (!close_lock_take(ctx))
        return;
    bool left = group_leave(ctx);
    progress_lock_put(ctx->rdv);
    if (!left)
        return;
    colls_copier_close(ctx->wiring->colls); /* its thread may wait for the lock */
    if (!close_lock_take(ctx))
        return;
    ctx->leaving = false;
    rails_settle(ctx);
    rendezvous_group_close(ctx->rdv);
    colls_group_close(ctx->wiring->colls);
    rendezvous_listen_stop(ctx->rdv);
    rails_close(ctx);
    rendezvous_rails_forget(ctx->rdv);
    rendezvous_live_close(ctx->rdv);
    ack_timer_stop(ctx->rdv);
    progress_lock_put(ctx->rdv);
    profile_file_close(ctx);
    group_plan_close(group->plan);
    roster_close(&group->roster);
    ctx->group = NULL;
    rank_key_wipe(group->secret);
    mem_free(group);
}
