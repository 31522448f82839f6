/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that run foreign code, and the exit of the process (thread.h).
 *
 * The exit of a process with a thread inside foreign code. A fabric's start may outlast
 * the context (opener.h), and a program may exit without a close. exit() then calls the
 * destructors of UCX, libfabric, librdmacm or a driver beside the thread that starts
 * them, and the process crashes or hangs. Four ways out, of which the last is taken:
 *   - _exit in a handler skips the program's own handlers and the flush of its files, and
 *     ending the process is not a library's part.
 *   - A thread that is stopped (a signal, pthread_cancel) may hold the locks of malloc or
 *     of the loader, and the rest of exit() takes these locks.
 *   - A destructor of the module runs too late: destructors of libraries that a fabric
 *     has loaded by dlopen have no order with the module's.
 *   - A handler of atexit waits for the thread. Handlers run before all destructors, in a
 *     program with libtryst.a too.
 *
 * Order. Handlers run in the reverse order of their registration, so a handler that a
 * foreign library registers during a start precedes the one registered before the start.
 * The handler is therefore registered again when libraries have been loaded since
 * (thread_exit_watch); each run of the handler waits. Handlers that the program has
 * registered earlier run later, and may still use the library: a thread that they start
 * registers the handler again, which libc then runs next.
 *
 * Bound. A start that works is waited for: on a host with 911 interfaces UCX computes for
 * 85 s. A start that has used no processor time for EXIT_IDLE_POLLS is blocked in a call,
 * and will not run in the milliseconds that the destructors take, so the exit goes on.
 * The exit also goes on after EXIT_POLLS, because a start may loop forever. Time is
 * counted in polls, so a process that was stopped in the meantime (SIGSTOP, a suspended
 * machine) does not lose that time.
 *
 * Invariants: `threads` has every thread of thread_open from before its creation until
 * its `run` has returned or thread_leave was called. The exiting thread itself, which may
 * be inside a callback of foreign code, is not waited for. The lock is never held while
 * the code of a fabric, or of the program, runs.
 */
#include "thread.h"

#include <errno.h>
#include <link.h>
#include <signal.h>
#include <stdlib.h>

#include "core/os/fork.h"

#define EXIT_POLL_NS (100 * NS_PER_MS)
#define EXIT_SLOW_NS (1 * NS_PER_S)
/* 10 s without processor time, and 5 min: as long as a fabric may take to start by
 * default (RAILS_START_TIMES). */
enum { EXIT_IDLE_POLLS = 100, EXIT_POLLS = 3000 };

/* Guarded by `lock`, except in a forked child's handler, which runs alone. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static struct list threads;
static unsigned watches;          /* registered handlers that have not run */
static unsigned long long loaded; /* loads_count when the last one was registered */

/* The record of this thread, or NULL. */
static _Thread_local struct thread *self;

/* ---- at exit ----------------------------------------------------------------------- */

static bool others_run(void)
{
    list_for_each_safe (&threads, node, after)
        if (container_of(node, struct thread, node) != self)
            return true;
    return false;
}

/* Return the processor time of all other threads. */
static uint64_t others_spent_ns(void)
{
    uint64_t sum_ns = 0;
    list_for_each_safe (&threads, node, after) {
        const struct thread *thread = container_of(node, struct thread, node);
        struct timespec spent;
        if (thread != self && thread->runs && clock_gettime(thread->clock, &spent) == 0)
            sum_ns += (uint64_t)spent.tv_sec * NS_PER_S + (uint64_t)spent.tv_nsec;
    }
    return sum_ns;
}

static void others_stop(void)
{
    list_for_each_safe (&threads, node, after) {
        struct thread *thread = container_of(node, struct thread, node);
        if (thread == self)
            continue;
        /* relaxed: the thread needs nothing else from this one. */
        atomic_store_explicit(&thread->exits, true, memory_order_relaxed);
        if (thread->params.stop)
            thread->params.stop(thread->params.arg);
    }
}

/* Log that exit() waits for each other thread, or that it goes on (`waits` is false). */
static void others_log(bool waits)
{
    list_for_each_safe (&threads, node, after) {
        const struct thread *thread = container_of(node, struct thread, node);
        if (thread == self)
            continue;
        if (waits)
            LOG_WARN(&thread->log,
                     "exit() waits for %s: its thread must end before the destructors of "
                     "libraries run",
                     thread->params.name);
        else
            LOG_ERROR(&thread->log,
                      "exit() does not wait for %s: its thread does not end",
                      thread->params.name);
    }
}

/* Remove the other threads, so that no later run of the handler waits for them. */
static void others_abandon(void)
{
    list_for_each_safe (&threads, node, after)
        if (container_of(node, struct thread, node) != self)
            (void)list_remove(node);
}

/* Wait until all other threads have ended, up to the bound. The caller holds the lock. */
static void others_await(void)
{
    unsigned idle = 0, polls = 0;
    uint64_t slow_ns = clock_monotonic_ns() + EXIT_SLOW_NS, before_ns = 0;
    bool logged = false;
    for (; others_run() && idle < EXIT_IDLE_POLLS && polls < EXIT_POLLS; polls++) {
        struct timespec at = timespec_of(clock_monotonic_ns() + EXIT_POLL_NS);
        uint64_t spent_ns = others_spent_ns();
        idle = spent_ns == before_ns ? idle + 1 : 0;
        before_ns = spent_ns;
        others_stop();
        (void)pthread_cond_timedwait(&changed, &lock, &at);
        if (!logged && others_run() && clock_monotonic_ns() > slow_ns) {
            others_log(true);
            logged = true;
        }
    }
    others_log(false);
    others_abandon();
}

static void exit_run(void)
{
    pthread_mutex_lock(&lock);
    watches--;
    others_await();
    pthread_mutex_unlock(&lock);
}

/* ---- registration ------------------------------------------------------------------ */

static int loads_visit(struct dl_phdr_info *info, size_t bytes, void *arg)
{
    (void)bytes;
    *(unsigned long long *)arg = info->dlpi_adds;
    return 1;
}

/* Return the number of objects that this process has ever loaded. */
static unsigned long long loads_count(void)
{
    unsigned long long count = 0;
    (void)dl_iterate_phdr(loads_visit, &count);
    return count;
}

/* Register the handler unless it is the latest. The caller holds the lock. */
static int exit_watch(void)
{
    unsigned long long now = loads_count();
    if (watches && now == loaded)
        return 0;
    if (atexit(exit_run) != 0)
        return watches ? 0 : ENOMEM;
    watches++;
    loaded = now;
    return 0;
}

void thread_exit_watch(void)
{
    pthread_mutex_lock(&lock);
    if (watches)
        (void)exit_watch();
    pthread_mutex_unlock(&lock);
}

/* Forget the threads of the parent, and what they held. */
static void forked_child(void *arg)
{
    (void)arg;
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    (void)thread_cond_open(&changed);
    list_init(&threads);
    self = NULL;
}

static void init(void)
{
    static struct fork_handler handler = {.child = forked_child};
    list_init(&threads);
    (void)thread_cond_open(&changed);
    (void)fork_handler_add(&handler);
}

/* ---- a thread ---------------------------------------------------------------------- */

void thread_leave(void)
{
    if (!self)
        return;
    pthread_mutex_lock(&lock);
    (void)list_remove(&self->node);
    self = NULL;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void ended(void *arg)
{
    (void)arg;
    thread_leave();
}

static void *thread_main(void *arg)
{
    struct thread *thread = arg;
    self = thread;
    pthread_mutex_lock(&lock);
    thread->runs = pthread_getcpuclockid(pthread_self(), &thread->clock) == 0;
    pthread_mutex_unlock(&lock);
    pthread_cleanup_push(ended, NULL); /* a callback of the program may end the thread */
    thread->params.run(thread->params.arg);
    pthread_cleanup_pop(1);
    return NULL;
}

bool thread_exits(void)
{
    /* relaxed: see others_stop. */
    return self && atomic_load_explicit(&self->exits, memory_order_relaxed);
}

static int blocked_create(struct thread *thread)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&thread->id, NULL, thread_main, thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

int thread_open(struct thread *thread, const struct thread_params *params)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, init);
    *thread = (struct thread){.params = *params};
    thread->params.log = NULL;
    if (params->log) {
        thread->log.level = params->log->level;
        thread->log.standard = params->log->standard;
    }
    atomic_init(&thread->log.rank, params->log ? params->log->rank : -1);
    pthread_mutex_lock(&lock);
    int rc = exit_watch();
    if (rc == 0)
        list_push_back(&threads, &thread->node);
    pthread_mutex_unlock(&lock);
    if (rc != 0)
        return rc;
    rc = blocked_create(thread);
    if (rc == 0)
        return 0;
    pthread_mutex_lock(&lock);
    (void)list_remove(&thread->node);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return rc;
}

int thread_cond_open(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    int rc = pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
    return rc;
}
