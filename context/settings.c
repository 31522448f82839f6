/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public calls that need no peer: configuration, version, counters, trace, dump.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "context.h"
#include "core/log/trace_json.h"
#include "core/log/trace_text.h"
#include "core/memory/alloc.h"
#include "core/os/fd.h"
#include "core/os/sigpipe.h"
#include "core/text/err.h"
#include "core/text/params.h"
#include "core/text/refuse.h"
#include "rendezvous/bootstrap/launch/launch.h"
#include "rendezvous/dump.h"
#include "rendezvous/group_info.h"
#include "rendezvous/op/op.h"
#include "rendezvous/peer/clock_offset.h"
#include "rendezvous/progress/progress.h"
#include "rendezvous/progress/submission.h"
#include "rendezvous/rendezvous.h"

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)

/* tryst_dump and tryst_group_peer wait this long for the progress lock. */
#define DUMP_NS (100 * NS_PER_MS)

uint32_t tryst_version(void)
{
    return TRYST_VERSION_MAJOR << 16 | TRYST_VERSION_MINOR << 8 | TRYST_VERSION_PATCH;
}

const char *tryst_version_string(void)
{
    return TEXT(TRYST_VERSION_MAJOR) "." TEXT(TRYST_VERSION_MINOR) "." TEXT(
        TRYST_VERSION_PATCH);
}

/* ---- configuration ----------------------------------------------------------------- */

static tryst_status result(tryst_status status, const struct err *err)
{
    return status == TRYST_OK ? status : refuse_err(err, status);
}

tryst_status tryst_config_open(tryst_config **config_p)
{
    struct err err = ERR_INIT;
    if (!config_p)
        return refuse_null("read the configuration", "config_p");
    tryst_config *config = mem_zalloc(sizeof *config);
    if (!config)
        return refuse_nomem("read the configuration");
    tryst_status status = config_open(NULL, &err, &config->config);
    if (status != TRYST_OK) {
        mem_free(config);
        return refuse_err(&err, status);
    }
    *config_p = config;
    return TRYST_OK;
}

tryst_status tryst_config_set(tryst_config *config, const char *name, const char *value)
{
    struct err err = ERR_INIT;
    if (!config || !name || !value)
        return refuse_null("set a setting", !config ? "config"
                                            : !name ? "name"
                                                    : "value");
    return result(config_set(config->config, name, value, &err), &err);
}

void tryst_config_close(tryst_config *config)
{
    if (!config)
        return;
    config_close(config->config);
    mem_free(config);
}

tryst_status tryst_launch_find(const tryst_config *config, tryst_launch *launch_p)
{
    struct err err = ERR_INIT;
    struct launch launch;
    struct config *own = NULL;
    if (!launch_p)
        return refuse_null("find the launcher", "launch_p");
    tryst_status status = params_check_output(launch_p, "tryst_launch", &err);
    if (status == TRYST_OK && !config)
        status = config_open(NULL, &err, &own);
    if (status == TRYST_OK)
        status = launch_detect(config ? config->config : own, getenv, &err, &launch);
    config_close(own);
    if (status != TRYST_OK)
        return refuse_err(&err, status);
    _Static_assert(sizeof launch_p->why == sizeof launch.why, "one text");
    tryst_launch found = {.launcher = launcher_name(launch.launcher),
                          .rank = launch.rank,
                          .size = launch.size,
                          .local_rank = launch.local_rank,
                          .local_size = launch.local_size};
    memcpy(found.why, launch.why, sizeof found.why);
    (void)tryst_sized_write(launch_p, &found, sizeof found);
    return TRYST_OK;
}

tryst_status tryst_config_get(const tryst_config *config, const char *name,
                              tryst_config_item *item_p)
{
    tryst_config_item item;
    if (!config || !name || !item_p)
        return refuse_null("read a setting", !config ? "config"
                                             : !name ? "name"
                                                     : "item_p");
    if (!tryst_sized_is_set(item_p))
        return refuse_unsized("read a setting", "item_p");
    if (!config_find(config->config, name, &item))
        return refuse(TRYST_E_CONFIG,
                      "cannot read a setting: no setting is named %.60s; "
                      "tryst-info -c lists all",
                      name);
    (void)tryst_sized_write(item_p, &item, sizeof item);
    return TRYST_OK;
}

int tryst_config_visit(const tryst_config *config,
                       int (*fn)(void *arg, const tryst_config_item *item), void *arg)
{
    return config && fn ? config_visit(config->config, fn, arg) : 0;
}

/* ---- seeing ------------------------------------------------------------------------ */

uint64_t tryst_now_ns(const tryst_ctx *ctx)
{
    (void)ctx;
    return clock_monotonic_ns();
}

int tryst_counter_visit(const tryst_ctx *ctx,
                        int (*fn)(void *arg, const char *name, uint64_t value), void *arg)
{
    if (!ctx || !fn || is_forked(ctx))
        return 0;
    int stop = rendezvous_counters_visit(ctx->rdv, fn, arg);
    return stop ? stop : fn(arg, "memory_bytes", alloc_live_bytes());
}

/* Return the origin of what this context writes: its newest group. */
static struct origin ctx_origin(const tryst_ctx *ctx)
{
    /* relaxed: the values only name the document, and change with a new group alone. */
    return (struct origin){
        .run = atomic_load_explicit(&ctx->run, memory_order_relaxed),
        .rank = atomic_load_explicit(&ctx->log.rank, memory_order_relaxed),
        .size = atomic_load_explicit(&ctx->size, memory_order_relaxed)};
}

void tryst_trace_span(tryst_ctx *ctx, const char *name, uint64_t begin_ns,
                      uint64_t end_ns, uint64_t arg)
{
    static const struct trace_labels labels = {.arg = {"arg"}};
    if (ctx && ctx->trace && !is_forked(ctx))
        trace_span(ctx->trace, trace_text(ctx->trace, name), &labels, begin_ns, end_ns,
                   arg, 0, 0);
}

void tryst_trace_counter(tryst_ctx *ctx, const char *name, uint64_t value)
{
    if (ctx && ctx->trace && !is_forked(ctx))
        trace_counter(ctx->trace, trace_text(ctx->trace, name), NULL, value, 0, 0);
}

tryst_status tryst_trace_write(tryst_ctx *ctx, int fd)
{
    if (!ctx)
        return refuse_null("write the trace", "ctx");
    if (fd < 0)
        return refuse(TRYST_E_INVALID, "cannot write the trace: fd is %d", fd);
    if (is_forked(ctx))
        return refuse_unusable("write the trace", TRYST_E_FORKED);
    if (!ctx->trace)
        return refuse(TRYST_E_UNSUPPORTED,
                      "cannot write the trace: none was recorded; set TRYST_TRACE=1");
    int own = fd_copy(fd);
    FILE *out = own >= 0 ? fdopen(own, "w") : NULL;
    if (!out) {
        tryst_status status =
            refuse(TRYST_E_IO, "cannot write the trace to descriptor %d: %s", fd,
                   err_reason(errno));
        if (own >= 0)
            close(own);
        return status;
    }
    struct origin origin = ctx_origin(ctx);
    struct trace_shift shift;
    struct sigpipe_guard guard;
    shift.known = rendezvous_clock(ctx->rdv, &shift.offset_ns, &shift.error_ns);
    sigpipe_guard_begin(&guard);
    tryst_status status = trace_write_json(ctx->trace, out, &origin, &shift);
    if (fclose(out) != 0 && status == TRYST_OK)
        status = TRYST_E_IO;
    sigpipe_guard_end(&guard);
    if (status != TRYST_OK)
        return refuse(status, "cannot write the trace to descriptor %d: %s", fd,
                      err_reason(errno));
    return status;
}

/* The progress domain owns the peer. Without the lock after DUMP_NS, the thread that
 * holds the lock is stuck, and the peer is read all the same. */
tryst_status tryst_group_peer(const tryst_group *group, int rank, tryst_peer_info *info_p)
{
    tryst_peer_info info;
    if (!group || !info_p)
        return refuse_null("describe a peer", group ? "info_p" : "group");
    if (!tryst_sized_is_set(info_p))
        return refuse_unsized("describe a peer", "info_p");
    tryst_ctx *ctx = rendezvous_group_ctx(group);
    if (is_forked(ctx))
        return refuse_unusable("describe a peer", TRYST_E_FORKED);
    bool taken = !op_callback_runs() && progress_lock_take(ctx->rdv, DUMP_NS);
    tryst_status status = rendezvous_group_peer(group, rank, &info);
    if (taken)
        progress_lock_put(ctx->rdv);
    if (status == TRYST_OK)
        (void)tryst_sized_write(info_p, &info, sizeof info);
    return status;
}

void tryst_dump(tryst_ctx *ctx, int fd)
{
    struct sigpipe_guard guard;
    if (!ctx || is_forked(ctx))
        return;
    sigpipe_guard_begin(&guard);
    if (progress_lock_take(ctx->rdv, DUMP_NS)) {
        rendezvous_dump(ctx->rdv, fd);
        progress_lock_put(ctx->rdv);
    } else {
        dprintf(fd, "tryst: cannot dump: another thread has held the progress lock for "
                    "100 ms; check whether it is stuck\n");
    }
    sigpipe_guard_end(&guard);
}
