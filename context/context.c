/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tryst_open and tryst_close: join the layers into a context.
 *
 * Idea: a context is opened without peers, and opens nothing that only a peer needs:
 * rails and modules come with the group (rails.c, group_open.c).
 *
 * Invariant: all parts are closed in the reverse order of their opening, also after a
 * failure half-way.
 */
#include "context.h"
#include "core/text/refuse.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "collectives/coll.h"
#include "commsched/profile/priorities.h"
#include "commsched/profile/recorder.h"
#include "commsched/sched/sched.h"
#include "core/memory/alloc.h"
#include "core/net/netif.h"
#include "core/net/port_range.h"
#include "core/os/clock.h"
#include "core/os/descriptors.h"
#include "core/os/foreign_fd.h"
#include "core/os/random.h"
#include "core/text/hash.h"
#include "core/text/params.h"
#include "rails.h"
#include "rendezvous/membership.h"
#include "rendezvous/progress/live_context.h"
#include "rendezvous/progress/progress.h"
#include "rendezvous/progress/submission.h"
#include "rendezvous/progress/thread.h"
#include "rendezvous/rendezvous.h"
#include "trace_file.h"
#include "transports/device.h"
#include "transports/memory/memory.h"
#include "transports/module_load.h"

/* errno of the draw of this process's secret; 0: drawn. Written inside the once. */
static int hash_secret_error;

static void hash_secret_draw(void)
{
    struct hash_secret secret;
    if (random_secret(&secret, sizeof secret) == TRYST_OK)
        hash_secret_set(&secret);
    else
        hash_secret_error = errno;
}

/* Draw the secret of this process's tables, once. Without one no context opens, since its
 * tables would have the constant secret of the tests. */
static tryst_status hash_secret_need(struct err *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, hash_secret_draw);
    if (hash_secret_error == 0)
        return TRYST_OK;
    return err_set(err, TRYST_E_SYSTEM, "cannot get random bytes: %s",
                   err_reason(hash_secret_error));
}

/* How long tryst_close waits for descriptors of other processes to be closed. */
#define FOREIGN_FDS_NS (2 * NS_PER_S)

static void forked_child(void *arg)
{
    tryst_ctx *ctx = arg;
    rendezvous_forked(ctx->rdv);
    rails_forked(ctx);
    close(ctx->poller.timer.fd);
    close(ctx->poller.wake.fd);
    close(ctx->poller.epoll_fd);
}

static tryst_status ctx_config_open(tryst_ctx *ctx, const tryst_open_params *params,
                                    struct err *err)
{
    ctx->log = (struct log)LOG_INIT;
    log_stderr_record(&ctx->log);
    ctx->log.sink = params->log_fn;
    ctx->log.arg = params->log_arg;
    tryst_status status = params->config
                              ? config_copy(params->config->config, &ctx->config)
                              : config_open(&ctx->log, err, &ctx->config);
    if (status != TRYST_OK)
        return err_set(err, status, "%s",
                       err->text[0] ? err->text : "cannot open a context: out of memory");
    ctx->log.level =
        (tryst_log_level)(TRYST_LOG_ERROR + config_enum(ctx->config, CONFIG_LOG_LEVEL));
    return TRYST_OK;
}

/* Check the settings that have a grammar of their own, so that an error is reported
 * at once. */
static tryst_status settings_check(const tryst_ctx *ctx, struct err *err)
{
    struct port_range ports;
    bool records;
    tryst_status status =
        port_range_parse(config_str(ctx->config, CONFIG_PORT_RANGE), err, &ports);
    return status == TRYST_OK ? trace_setting_read(ctx->config, err, &records) : status;
}

static tryst_status ctx_trace_open(tryst_ctx *ctx)
{
    struct err err = ERR_INIT;
    bool records = false;
    if (trace_setting_read(ctx->config, &err, &records) != TRYST_OK || !records)
        return TRYST_OK; /* settings_check has passed it */
    return trace_open((size_t)config_int(ctx->config, CONFIG_TRACE_EVENTS), NULL,
                      &ctx->trace);
}

static void ctx_recorder_close(tryst_ctx *ctx)
{
    priorities_close(ctx->priorities);
    recorder_close(ctx->recorder);
}

/* Open the recorder of steps if a setting needs it. */
static tryst_status ctx_recorder_open(tryst_ctx *ctx)
{
    bool prioritizes = config_bool(ctx->config, CONFIG_AUTO_PRIORITY);
    if (!prioritizes && !*config_str(ctx->config, CONFIG_PROFILE))
        return TRYST_OK;
    ctx->recorder = recorder_open(NULL);
    if (prioritizes)
        ctx->priorities = priorities_open();
    if (ctx->recorder && (ctx->priorities || !prioritizes))
        return TRYST_OK;
    ctx_recorder_close(ctx);
    return TRYST_E_NOMEM;
}

static tryst_status thread_start(void *owner)
{
    return progress_thread_start(((tryst_ctx *)owner)->rdv);
}

static tryst_status engine_open(tryst_ctx *ctx, struct err *err)
{
    struct sched_params sched = {
        .trace = ctx->trace,
        .window_bytes = config_bytes(ctx->config, CONFIG_WINDOW_BYTES),
        .rail_window_bytes = config_bytes(ctx->config, CONFIG_RAIL_WINDOW_BYTES),
        .start = rendezvous_slice_start};
    tryst_status status = sched_open(&sched, &ctx->sched);
    if (status != TRYST_OK)
        return err_set(err, status, "cannot open a context: out of memory");
    struct rendezvous_params params = {.ctx = ctx,
                                       .config = ctx->config,
                                       .log = &ctx->log,
                                       .poller = &ctx->poller,
                                       .trace = ctx->trace,
                                       .recorder = ctx->recorder,
                                       .sched = ctx->sched,
                                       .coll_calls = colls_calls(ctx->wiring->colls),
                                       .rail_open = rail_open,
                                       .host = &ctx->wiring->host,
                                       .memory = ctx->wiring->memory,
                                       .device_start = devices_start};
    return rendezvous_open(&params, err, &ctx->rdv);
}

/* Enter the progress domain to release a region (memory.h). */
static enum memory_entry domain_enter(void *arg)
{
    tryst_ctx *ctx = arg;
    if (progress_is_mine(ctx->rdv))
        return MEMORY_INSIDE;
    while (!progress_lock_take(ctx->rdv, TRYST_FOREVER))
        ;
    return MEMORY_ENTERED;
}

static void domain_leave(void *arg)
{
    progress_lock_put(((tryst_ctx *)arg)->rdv);
}

static void unprioritized_log(void *owner, const char *why)
{
    const tryst_ctx *ctx = owner;
    LOG_DEBUG(&ctx->log, "TRYST_AUTO_PRIORITY: priorities are not applied: %s", why);
}

static tryst_status wiring_open(tryst_ctx *ctx, struct err *err)
{
    ctx->wiring = mem_zalloc(sizeof *ctx->wiring);
    if (!ctx->wiring)
        return err_set(err, TRYST_E_NOMEM, "cannot open a context: out of memory");
    module_host_init(&ctx->wiring->host, ctx->config, &ctx->log);
    pthread_mutex_init(&ctx->wiring->devices.lock, NULL);
    struct coll_host host = {.owner = ctx,
                             .start = thread_start,
                             .recorder = ctx->recorder,
                             .priorities = ctx->priorities,
                             .unprioritized = unprioritized_log};
    tryst_status status = colls_open(&host, ctx->config, &ctx->wiring->colls);
    if (status == TRYST_OK)
        status =
            memory_cache_open(memory_ops_load, &ctx->wiring->host, &ctx->wiring->memory);
    if (status == TRYST_OK) {
        memory_cache_guard(ctx->wiring->memory,
                           &(struct memory_domain){domain_enter, domain_leave, ctx});
        return status;
    }
    colls_close(ctx->wiring->colls);
    pthread_mutex_destroy(&ctx->wiring->devices.lock);
    mem_free(ctx->wiring);
    return err_set(err, status, "cannot open a context: out of memory");
}

static void wiring_close(tryst_ctx *ctx)
{
    rails_close(ctx);
    colls_close(ctx->wiring->colls);
    memory_cache_close(ctx->wiring->memory);
    netif_list_close(ctx->wiring->rails.interfaces);
    pthread_mutex_destroy(&ctx->wiring->devices.lock);
    mem_free(ctx->wiring);
}

static tryst_status ctx_open(tryst_ctx *ctx, const tryst_open_params *params,
                             struct err *err)
{
    tryst_status status = hash_secret_need(err);
    if (status == TRYST_OK)
        status = ctx_config_open(ctx, params, err);
    if (status != TRYST_OK)
        return status;
    status = settings_check(ctx, err);
    if (status != TRYST_OK)
        goto close_config;
    status = poller_open(&ctx->poller);
    if (status != TRYST_OK) {
        err_set(err, status,
                "cannot open a context: cannot create an epoll, eventfd or timerfd: %s",
                err_reason(errno));
        goto close_config;
    }
    status = ctx_trace_open(ctx);
    if (status != TRYST_OK) {
        err_set(err, status,
                "cannot open a context: no memory for the trace; lower "
                "TRYST_TRACE_EVENTS");
        goto close_poller;
    }
    status = ctx_recorder_open(ctx);
    if (status != TRYST_OK) {
        err_set(err, status, "cannot open a context: no memory to record a profile");
        goto close_trace;
    }
    status = wiring_open(ctx, err);
    if (status != TRYST_OK)
        goto close_recorder;
    status = engine_open(ctx, err);
    if (status != TRYST_OK)
        goto close_wiring;
    status = progress_open(ctx->rdv);
    if (status != TRYST_OK) {
        err_set(err, status, "cannot open a context: %s",
                status == TRYST_E_NOMEM ? "out of memory"
                                        : "cannot create the mutexes of its threads");
        goto close_engine;
    }
    ctx->fork.child = forked_child;
    ctx->fork.arg = ctx;
    status = fork_handler_add(&ctx->fork);
    if (status == TRYST_OK)
        return status;
    err_set(err, status, "cannot open a context: cannot register the fork handler");
    progress_close(ctx->rdv);
close_engine:
    rendezvous_close(ctx->rdv);
close_wiring:
    if (ctx->sched)
        sched_close(ctx->sched);
    wiring_close(ctx);
close_recorder:
    ctx_recorder_close(ctx);
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
    tryst_open_params own;
    if (!ctx_p)
        return refuse_null("open a context", "ctx_p");
    if (params_read(&own, sizeof own, params, "tryst_open_params", &err) != TRYST_OK)
        return refuse_err(&err, TRYST_E_INVALID);
    tryst_ctx *ctx = mem_zalloc(sizeof *ctx);
    tryst_status status =
        ctx ? ctx_open(ctx, &own, &err)
            : err_set(&err, TRYST_E_NOMEM, "cannot open a context: out of memory");
    if (status != TRYST_OK) {
        mem_free(ctx);
        return refuse_err(&err, status);
    }
    *ctx_p = ctx;
    return TRYST_OK;
}

void tryst_close(tryst_ctx *ctx)
{
    if (!ctx)
        return;
    if (is_forked(ctx))
        return; /* the context is the parent's; this copy ends with the process */
    if (ctx->group)
        tryst_group_close(ctx->group);
    if (ctx->group)
        return; /* the close has logged why: memory that a fabric still uses must stay */
    progress_thread_stop(ctx->rdv);
    devices_settle(ctx);
    trace_file_write(ctx);
    fork_handler_remove(&ctx->fork);
    rendezvous_refuse(ctx->rdv);
    progress_close(ctx->rdv);
    rendezvous_close(ctx->rdv);
    sched_close(ctx->sched);
    wiring_close(ctx);
    ctx_recorder_close(ctx);
    trace_close(ctx->trace);
    poller_close(&ctx->poller);
    if (!foreign_fds_wait(FOREIGN_FDS_NS))
        LOG_WARN(&ctx->log,
                 "a descriptor that another process sent is still being closed "
                 "in a thread: its close blocks");
    config_close(ctx->config);
    mem_free(ctx);
}
