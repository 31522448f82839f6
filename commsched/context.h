/* SPDX-License-Identifier: Apache-2.0 */
/** @file context.h
 *  The context as the files of this layer see it. Wired together in context.c.
 */
#ifndef COMMSCHED_CONTEXT_H
#define COMMSCHED_CONTEXT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "core/config.h"
#include "core/fork.h"
#include "core/list.h"
#include "core/log.h"
#include "core/poller.h"
#include "core/trace.h"
#include "tryst/tryst.h"

struct dispatch;
struct rendezvous;

/** Who progresses, and who waits for that or for an operation (progress.c).
 *
 *  The role:  free ─role_try─▶ held ─role_put─▶ free; one holder. A thread that does not get it
 *  waits in `line` with a condition of its own; the holder wakes those whose operation is done,
 *  and on leaving the first of the others. */
struct progress {
    _Atomic(bool) held;
    struct progress
        *outer; /**< with the role: the one that its holder had before, or NULL */
    _Atomic(uint32_t) waiting; /**< threads in line */
    _Atomic(uint32_t) urgent;  /**< of those, how many want the role itself, soon */
    pthread_mutex_t lock;      /**< guards line */
    struct list line;
    bool untold;         /**< threads in line may not know yet what has completed */
    bool armed;          /**< tryst_arm was the last thing: run the poller first */
    bool loop_sleeps;    /**< tryst_arm said OK, and no tryst_progress came since */
    uint32_t passes;     /**< since the poller ran */
    uint64_t poll_at_ns; /**< tryst_progress runs it again from then on */
    pthread_t thread;
    bool thread_runs;
    pthread_mutex_t thread_lock;
    _Atomic(bool) thread_stop;
    uint64_t spin_ns;
};

/** The thread that sends acknowledgements that stayed behind (ack_timer.c). It runs from the first call
 *  on, and rests between calls. */
struct ack_timer {
    pthread_mutex_t lock; /**< guards the rest */
    pthread_cond_t wake;
    pthread_t thread;
    uint64_t delay_ns; /**< 0: there is none; constant */
    bool runs;
    bool called;
    bool stop;
};

struct tryst_config {
    struct config *config;
};

struct tryst_ctx {
    struct config *config;
    struct log log;
    struct poller poller;
    struct trace *trace;
    struct dispatch *dispatch;
    struct ack_timer ack_timer;
    struct rendezvous *rdv;
    struct tryst_group *group;
    bool cut; /**< the group's endpoints were closed by force, but not all have ended */
    struct progress progress;
    struct fork_handler fork;
    struct wiring *wiring; /**< what only context.c knows: host table, memory, rails */
};

/* progress.c */
tryst_status progress_open(tryst_ctx *ctx);
void progress_close(tryst_ctx *ctx);
/** The role for one submission: taken if it is free, and put without looking at what is owed. */
bool progress_enter(void *ctx);
void progress_leave(void *ctx);
/** Take the role, waiting at most `timeout_ns`; false: not to be had. */
bool progress_role_take(tryst_ctx *ctx, uint64_t timeout_ns);
void progress_role_put(tryst_ctx *ctx);
/** Has this thread the role? */
bool progress_role_is_mine(const tryst_ctx *ctx);
/** With the role: one pass of everything. Returns the number of events. */
int progress_pass(tryst_ctx *ctx);
/** Put the role, and let a thread that wants it have it before this one tries again. */
void progress_role_pass(tryst_ctx *ctx);
/** With the role: make progress until `done(arg)`, `timeout_ns` have passed, or another thread
 *  wants the role itself. Returns done(arg). */
bool progress_until(tryst_ctx *ctx, bool (*done)(void *arg), void *arg,
                    uint64_t timeout_ns);
/** Start the background thread if there is none. */
tryst_status progress_thread_start(tryst_ctx *ctx);
void progress_thread_stop(tryst_ctx *ctx);

/* thread.c */
/** pthread_create with every signal blocked in the new thread. Returns an errno. */
int thread_create_blocked(pthread_t *thread, void *(*fn)(void *arg), void *arg);

/* ack_timer.c */
tryst_status ack_timer_open(tryst_ctx *ctx);
void ack_timer_close(tryst_ctx *ctx);
/** With the role: begin to run. False: there is none, or no thread could be made. */
bool ack_timer_call(void *ctx);

#endif
