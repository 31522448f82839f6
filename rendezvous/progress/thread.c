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
 *   - A wait adds 1 to `waits_open`, then loads `drives`; the thread stores `drives`,
 *     then loads `waits_open`. So the thread does not sleep in epoll
 *     while a wait is open and no wake-up was sent.
 *   - The last wait subtracts 1 from `waits_open`, then loads `sleeps`; the thread
 *     stores `sleeps`, then loads `waits_open`. So the thread does not sleep after
 *     the last wait.
 *
 * Invariants: all signals are blocked in this thread (core/thread/thread.h); TRYST_BIND
 * binds this thread alone, never a thread of the program.
 */
#include <errno.h>

#include "bind.h"
#include "progress.h"
#include "rendezvous/op/engine.h"

/* How long the thread leaves the engine to waits that follow one another. Long beside the
 * time between two waits for small tensors (10 us in C, 50 us in Python); one such time
 * is what an operation without a driver may lose when the program begins to compute. */
#define BACK_OFF_NS (200 * NS_PER_US)

tryst_status progress_thread_open(struct progress_thread *thread)
{
    if (pthread_mutex_init(&thread->mutex, NULL) != 0)
        return TRYST_E_SYSTEM;
    if (thread_cond_open(&thread->wake) == 0)
        return TRYST_OK;
    pthread_mutex_destroy(&thread->mutex);
    return TRYST_E_SYSTEM;
}

void progress_thread_close(struct progress_thread *thread)
{
    pthread_mutex_destroy(&thread->mutex);
    pthread_cond_destroy(&thread->wake);
}

static bool stop_is_requested(const struct progress_thread *thread)
{
    /* acquire: pairs with the release in thread_stop. */
    return atomic_load_explicit(&thread->stop, memory_order_acquire);
}

static bool program_waits(const struct progress_thread *thread)
{
    return atomic_load_explicit(&thread->waits_open, memory_order_seq_cst) != 0;
}

/* True if the thread leaves the engine. */
static bool is_displaced(void *arg)
{
    const struct rendezvous *rdv = arg;
    return stop_is_requested(&rdv->progress->thread) ||
           program_waits(&rdv->progress->thread);
}

void progress_thread_displace(struct rendezvous *rdv)
{
    struct progress_thread *thread = &rdv->progress->thread;
    atomic_fetch_add_explicit(&thread->waits_count, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&thread->waits_open, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&thread->drives, memory_order_seq_cst))
        poller_wake(rdv->poller);
}

void progress_thread_resume(struct rendezvous *rdv)
{
    struct progress_thread *thread = &rdv->progress->thread;
    if (atomic_fetch_sub_explicit(&thread->waits_open, 1, memory_order_seq_cst) != 1 ||
        !atomic_load_explicit(&thread->sleeps, memory_order_seq_cst))
        return;
    pthread_mutex_lock(&thread->mutex);
    pthread_cond_signal(&thread->wake);
    pthread_mutex_unlock(&thread->mutex);
}

/* Sleep for a period; if `long_wait`, until the last wait has ended. */
static void thread_sleep(struct progress_thread *thread, bool long_wait)
{
    uint64_t period_ns = long_wait ? NS_PER_S : BACK_OFF_NS;
    struct timespec at = timespec_of(clock_monotonic_ns() + period_ns);
    int rc = 0;
    pthread_mutex_lock(&thread->mutex);
    atomic_store_explicit(&thread->sleeps, long_wait, memory_order_seq_cst);
    while (rc == 0 && !stop_is_requested(thread) && (!long_wait || program_waits(thread)))
        rc = pthread_cond_timedwait(&thread->wake, &thread->mutex, &at);
    atomic_store_explicit(&thread->sleeps, false, memory_order_relaxed);
    pthread_mutex_unlock(&thread->mutex);
}

/* Make one pass if the lock is free. True: there were events. */
static bool pass_once(struct rendezvous *rdv)
{
    if (!progress_lock_try(&rdv->progress->lock))
        return false;
    bool busy = progress_pass(rdv) > 0;
    progress_lock_put(rdv);
    return busy;
}

/* Leave the engine to the program until it is due to be driven by this thread. */
static void back_off(struct rendezvous *rdv)
{
    struct progress_thread *thread = &rdv->progress->thread;
    bool long_wait = false;
    for (;;) {
        /* relaxed: a count; a wait that is missed shows as one in the next period. */
        uint32_t before =
            atomic_load_explicit(&thread->waits_count, memory_order_relaxed);
        thread_sleep(thread, long_wait);
        bool quiet =
            before == atomic_load_explicit(&thread->waits_count, memory_order_relaxed);
        long_wait = quiet && program_waits(thread);
        if (stop_is_requested(thread) ||
            (!program_waits(thread) && (quiet || pass_once(rdv))))
            return;
    }
}

/* Drive until the program waits, or another thread waits for the lock itself. Where the
 * lock is taken, the holder drives. */
static void thread_drive(struct rendezvous *rdv)
{
    struct progress_thread *thread = &rdv->progress->thread;
    if (!progress_lock_try(&rdv->progress->lock)) {
        thread_sleep(thread, false);
        return;
    }
    atomic_store_explicit(&thread->drives, true, memory_order_seq_cst);
    progress_until(rdv, is_displaced, rdv, TRYST_FOREVER);
    atomic_store_explicit(&thread->drives, false, memory_order_relaxed);
    progress_lock_pass(rdv);
}

/* Bind the thread as TRYST_BIND describes. A failure is logged only: the thread works
 * without a binding. */
static void thread_bind(struct rendezvous *rdv)
{
    struct err err = ERR_INIT;
    char text[256] = "";
    int place = tryst_group_local_rank(rdv->group);
    tryst_status status =
        bind_thread(place > 0 ? (uint32_t)place : 0, &err, text, sizeof text);
    if (status == TRYST_OK)
        LOG_INFO(rdv->log, "the progress thread is %s", text);
    else
        LOG_WARN(rdv->log, "cannot bind the progress thread (TRYST_BIND): %s",
                 *err.text ? err.text : tryst_status_str(status));
}

static void thread_run(void *arg)
{
    struct rendezvous *rdv = arg;
    trace_thread_name(rdv->trace, "progress");
    if (config_enum(rdv->config, CONFIG_BIND) == CONFIG_BIND_AUTO)
        thread_bind(rdv);
    while (!stop_is_requested(&rdv->progress->thread)) {
        if (program_waits(&rdv->progress->thread))
            back_off(rdv);
        else
            thread_drive(rdv);
    }
}

/* Without the mutex, since it must not block at exit: a signal may come too early for the
 * thread, and exit repeats it. */
static void thread_stop(void *arg)
{
    struct rendezvous *rdv = arg;
    /* release: pairs with the acquire in stop_is_requested. */
    atomic_store_explicit(&rdv->progress->thread.stop, true, memory_order_release);
    poller_wake(rdv->poller);
    pthread_cond_signal(&rdv->progress->thread.wake);
}

static bool thread_runs(const struct progress_thread *thread)
{
    return atomic_load_explicit(&thread->runs, memory_order_relaxed);
}

tryst_status progress_thread_start(struct rendezvous *rdv)
{
    struct progress_thread *thread = &rdv->progress->thread;
    tryst_status status = TRYST_OK;
    pthread_mutex_lock(&thread->mutex);
    if (!thread_runs(thread)) {
        /* relaxed: the thread of the last group has been joined. */
        atomic_store_explicit(&thread->stop, false, memory_order_relaxed);
        struct thread_params params = {.run = thread_run,
                                       .stop = thread_stop,
                                       .arg = rdv,
                                       .name = "the background thread",
                                       .log = rdv->log};
        int rc = thread_open(&thread->thread, &params);
        /* relaxed, all: changed under `mutex` or while no other thread calls, and a
         * hint in progress_await. */
        atomic_store_explicit(&thread->runs, rc == 0, memory_order_relaxed);
        errno = rc;
        status = rc == 0 ? TRYST_OK : TRYST_E_SYSTEM;
    }
    pthread_mutex_unlock(&thread->mutex);
    return status;
}

void progress_thread_stop(struct rendezvous *rdv)
{
    struct progress_thread *thread = &rdv->progress->thread;
    if (!thread_runs(thread))
        return;
    thread_stop(rdv);
    pthread_mutex_lock(&thread->mutex);
    pthread_cond_signal(&thread->wake);
    pthread_mutex_unlock(&thread->mutex);
    pthread_join(thread->thread.id, NULL);
    atomic_store_explicit(&thread->runs, false, memory_order_relaxed);
}
