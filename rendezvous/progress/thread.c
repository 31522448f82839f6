/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The background thread: holds the progress lock while no thread of the program waits.
 *
 * Idea: a thread that waits drives, also where there is a background thread. Otherwise
 * each message would wake two threads in turn. After a wait the background thread takes
 * the engine back only if no other wait follows within BACK_OFF_NS, or if there is work
 * to do: a program that exchanges small tensors waits again within microseconds, and
 * would find the lock taken.
 *
 *              a wait begins               a period with a wait
 *     drives ────────────────▶ backs off ◀────────────────────┐
 *        ▲                      │ │ └─────────────────────────┘
 *        └──────────────────────┘ │ a wait as long as a period
 *          a period without waits │
 *          or a pass with events  ▼
 *                               sleeps until the last wait ends, then backs off
 *
 * Two pairs of a store followed by a load on both sides (Dekker), all seq_cst:
 *   - A wait adds 1 to `waits_open`, then loads `thread_drives`; the thread stores
 *     `thread_drives`, then loads `waits_open`. So the thread does not sleep in epoll
 *     while a wait is open and no wake-up was sent.
 *   - The last wait subtracts 1 from `waits_open`, then loads `thread_sleeps`; the thread
 *     stores `thread_sleeps`, then loads `waits_open`. So the thread does not sleep after
 *     the last wait.
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

/* How long the thread leaves the engine to waits that follow one another. Long beside the
 * time between two waits for small tensors (10 us in C, 50 us in Python); one such time
 * is what an operation without a driver may lose when the program begins to compute. */
#define BACK_OFF_NS (200 * NS_PER_US)

static bool stop_is_requested(const struct progress *progress)
{
    /* acquire: pairs with the release in progress_thread_stop. */
    return atomic_load_explicit(&progress->thread_stop, memory_order_acquire);
}

static bool program_waits(const struct progress *progress)
{
    return atomic_load_explicit(&progress->waits_open, memory_order_seq_cst) != 0;
}

/* True if the thread leaves the engine. */
static bool is_displaced(void *arg)
{
    const tryst_ctx *ctx = arg;
    return stop_is_requested(&ctx->progress) || program_waits(&ctx->progress);
}

void progress_thread_displace(tryst_ctx *ctx)
{
    struct progress *progress = &ctx->progress;
    atomic_fetch_add_explicit(&progress->waits_count, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&progress->waits_open, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&progress->thread_drives, memory_order_seq_cst))
        poller_wake(&ctx->poller);
}

void progress_thread_resume(tryst_ctx *ctx)
{
    struct progress *progress = &ctx->progress;
    if (atomic_fetch_sub_explicit(&progress->waits_open, 1, memory_order_seq_cst) != 1 ||
        !atomic_load_explicit(&progress->thread_sleeps, memory_order_seq_cst))
        return;
    pthread_mutex_lock(&progress->thread_mutex);
    pthread_cond_signal(&progress->thread_wake);
    pthread_mutex_unlock(&progress->thread_mutex);
}

/* Sleep for a period; if `long_wait`, until the last wait has ended. */
static void thread_sleep(struct progress *progress, bool long_wait)
{
    uint64_t period_ns = long_wait ? NS_PER_S : BACK_OFF_NS;
    struct timespec at = timespec_of(clock_monotonic_ns() + period_ns);
    int rc = 0;
    pthread_mutex_lock(&progress->thread_mutex);
    atomic_store_explicit(&progress->thread_sleeps, long_wait, memory_order_seq_cst);
    while (rc == 0 && !stop_is_requested(progress) &&
           (!long_wait || program_waits(progress)))
        rc = pthread_cond_timedwait(&progress->thread_wake, &progress->thread_mutex, &at);
    atomic_store_explicit(&progress->thread_sleeps, false, memory_order_relaxed);
    pthread_mutex_unlock(&progress->thread_mutex);
}

/* Make one pass if the lock is free. True: there were events. */
static bool pass_once(tryst_ctx *ctx)
{
    if (!progress_enter(ctx))
        return false;
    bool busy = progress_pass(ctx) > 0;
    progress_lock_put(ctx);
    return busy;
}

/* Leave the engine to the program until it is due to be driven by this thread. */
static void back_off(tryst_ctx *ctx)
{
    struct progress *progress = &ctx->progress;
    bool long_wait = false;
    for (;;) {
        /* relaxed: a count; a wait that is missed shows as one in the next period. */
        uint32_t before =
            atomic_load_explicit(&progress->waits_count, memory_order_relaxed);
        thread_sleep(progress, long_wait);
        bool quiet =
            before == atomic_load_explicit(&progress->waits_count, memory_order_relaxed);
        long_wait = quiet && program_waits(progress);
        if (stop_is_requested(progress) ||
            (!program_waits(progress) && (quiet || pass_once(ctx))))
            return;
    }
}

/* Drive until the program waits, or another thread waits for the lock itself. Where the
 * lock is taken, the holder drives. */
static void thread_drive(tryst_ctx *ctx)
{
    struct progress *progress = &ctx->progress;
    if (!progress_enter(ctx)) {
        thread_sleep(progress, false);
        return;
    }
    atomic_store_explicit(&progress->thread_drives, true, memory_order_seq_cst);
    progress_until(ctx, is_displaced, ctx, TRYST_FOREVER);
    atomic_store_explicit(&progress->thread_drives, false, memory_order_relaxed);
    progress_lock_pass(ctx);
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
    while (!stop_is_requested(&ctx->progress)) {
        if (program_waits(&ctx->progress))
            back_off(ctx);
        else
            thread_drive(ctx);
    }
}

/* Without the mutex, since it must not block at exit: a signal may come too early for the
 * thread, and exit repeats it. */
static void thread_stop(void *arg)
{
    tryst_ctx *ctx = arg;
    /* release: pairs with the acquire in stop_is_requested. */
    atomic_store_explicit(&ctx->progress.thread_stop, true, memory_order_release);
    poller_wake(&ctx->poller);
    pthread_cond_signal(&ctx->progress.thread_wake);
}

static bool thread_runs(const struct progress *progress)
{
    return atomic_load_explicit(&progress->thread_runs, memory_order_relaxed);
}

tryst_status progress_thread_start(tryst_ctx *ctx)
{
    struct progress *progress = &ctx->progress;
    tryst_status status = TRYST_OK;
    pthread_mutex_lock(&progress->thread_mutex);
    if (!thread_runs(progress)) {
        /* relaxed: the thread of the last group has been joined. */
        atomic_store_explicit(&progress->thread_stop, false, memory_order_relaxed);
        struct thread_params params = {.run = thread_run,
                                       .stop = thread_stop,
                                       .arg = ctx,
                                       .name = "the background thread",
                                       .log = &ctx->log};
        int rc = thread_open(&progress->thread, &params);
        /* relaxed, all: changed under thread_mutex or while no other thread calls, and a
         * hint in progress_await. */
        atomic_store_explicit(&progress->thread_runs, rc == 0, memory_order_relaxed);
        errno = rc;
        status = rc == 0 ? TRYST_OK : TRYST_E_SYSTEM;
    }
    pthread_mutex_unlock(&progress->thread_mutex);
    return status;
}

void progress_thread_stop(tryst_ctx *ctx)
{
    struct progress *progress = &ctx->progress;
    if (!thread_runs(progress))
        return;
    thread_stop(ctx);
    pthread_mutex_lock(&progress->thread_mutex);
    pthread_cond_signal(&progress->thread_wake);
    pthread_mutex_unlock(&progress->thread_mutex);
    pthread_join(progress->thread.id, NULL);
    atomic_store_explicit(&progress->thread_runs, false, memory_order_relaxed);
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
    if (status != TRYST_OK)
        return refuse(status,
                      "cannot make a stream of device %d wait: %s; the log has the "
                      "driver's error",
                      (int)device, tryst_status_str(status));
    return status;
}
