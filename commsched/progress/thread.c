/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The background thread: holds the progress lock until another thread waits for the lock
 * itself.
 *
 * Invariants: all signals are blocked in this thread (core/thread/thread.h); TRYST_BIND
 * binds this thread alone, never a thread of the program.
 */
#include <errno.h>

#include "core/text/refuse.h"
#include "ctx.h"
#include "rendezvous/op/op.h"
#include "rendezvous/rendezvous.h"
#include "rendezvous/stream_wait.h"
#include "rendezvous/submission.h"
#include "thread.h"
#include "topology/place/bind.h"

static bool stop_is_requested(void *arg)
{
    tryst_ctx *ctx = arg;
    /* acquire: pairs with the release in progress_thread_stop. */
    return atomic_load_explicit(&ctx->progress.thread_stop, memory_order_acquire);
}

/* Bind the thread as TRYST_BIND describes. A failure is logged only: the thread works
 * without a binding. */
static void thread_bind(tryst_ctx *ctx)
{
    struct err err = ERR_INIT;
    char text[256] = "";
    int place = tryst_group_local_rank(ctx->group);
    tryst_status status =
        bind_thread(place > 0 ? (uint32_t)place : 0, &err, text, sizeof text);
    if (status == TRYST_OK)
        LOG_INFO(&ctx->log, "the progress thread is %s", text);
    else
        LOG_WARN(&ctx->log, "cannot bind the progress thread (TRYST_BIND): %s",
                 *err.text ? err.text : tryst_status_str(status));
}

static void thread_run(void *arg)
{
    tryst_ctx *ctx = arg;
    trace_thread_name(ctx->trace, "progress");
    if (config_enum(ctx->config, CONFIG_BIND) == CONFIG_BIND_AUTO)
        thread_bind(ctx);
    while (!stop_is_requested(ctx)) {
        if (!progress_lock_take(ctx, NS_PER_S))
            continue;
        progress_until(ctx, stop_is_requested, ctx, TRYST_FOREVER);
        progress_lock_pass(ctx);
    }
}

static void thread_stop(void *arg)
{
    tryst_ctx *ctx = arg;
    /* release: pairs with the acquire in stop_is_requested. */
    atomic_store_explicit(&ctx->progress.thread_stop, true, memory_order_release);
    poller_wake(&ctx->poller);
}

tryst_status progress_thread_start(tryst_ctx *ctx)
{
    struct progress *progress = &ctx->progress;
    tryst_status status = TRYST_OK;
    pthread_mutex_lock(&progress->thread_mutex);
    if (!progress->thread_runs) {
        struct thread_params params = {.run = thread_run,
                                       .stop = thread_stop,
                                       .arg = ctx,
                                       .name = "the background thread",
                                       .log = &ctx->log};
        int rc = thread_open(&progress->thread, &params);
        progress->thread_runs = rc == 0;
        errno = rc;
        status = progress->thread_runs ? TRYST_OK : TRYST_E_SYSTEM;
    }
    pthread_mutex_unlock(&progress->thread_mutex);
    return status;
}

void progress_thread_stop(tryst_ctx *ctx)
{
    struct progress *progress = &ctx->progress;
    if (!progress->thread_runs)
        return;
    thread_stop(ctx);
    pthread_join(progress->thread.id, NULL);
    progress->thread_runs = false;
}

/* Start the background thread, too: no thread of the program may wait while the
 * stream does. */
tryst_status tryst_op_stream_wait(tryst_op *op, int32_t device, void *stream)
{
    if (!op)
        return refuse_null("make a stream wait", "op");
    tryst_status status = rendezvous_usable(op->rdv);
    if (status != TRYST_OK)
        return refuse_unusable("make a stream wait", status);
    if (tryst_op_test(op) != TRYST_IN_PROGRESS)
        return TRYST_OK; /* the operation is complete already */
    status = progress_thread_start(rendezvous_owner(op->rdv));
    if (status != TRYST_OK)
        return refuse(status, "cannot make a stream wait: cannot create a thread: %s",
                      err_reason(errno));
    status = rendezvous_stream_wait(op, device, stream);
    if (status == TRYST_OK && op->kind >= OP_STEP_CLOSE)
        op_used(op, false);
    else
        return refuse(status,
                      "cannot make a stream of device %d wait: %s; the log has the "
                      "driver's error",
                      (int)device, tryst_status_str(status));
    return status;
}
