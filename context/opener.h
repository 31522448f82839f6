/* SPDX-License-Identifier: Apache-2.0 */
/** @file opener.h
 *  Starts of foreign code (a module, a fabric, a driver), each in a separate thread.
 *
 *            opener_start            run ends; `ended` follows in the next pass
 *     (new) ─────────────▶ RUNS ──────────────────────────────────────────────▶ ENDED
 *                           │
 *                           │ opener_leave: the close has waited long enough
 *                           ▼
 *                          LEFT ──── run ends ────▶ `undo`, in the thread (freed)
 *
 *  Idea: foreign code may take seconds or minutes to start (UCX reads all interfaces of
 *  the host, a driver starts its devices), so no start runs under the progress lock. The
 *  thread gets a record with copies of its input: configuration, log, host table. The
 *  thread touches nothing of the context.
 *
 *  Exit: exit() waits for the thread (core/thread/thread.c). `run` calls opener_stops
 *  between two steps, so that the thread ends soon.
 *
 *  Ownership: the creator owns the record until opener_start, the thread while the state
 *  is RUNS or LEFT, and the progress domain once the state is ENDED. The thread hands the
 *  record over by a submission, so `ended` runs in a pass. The push is a release and the
 *  drain an acquire (core/memory/mpsc.h), which orders all writes of `run` before all
 *  reads of `ended`. Only `state` is shared, guarded by `mutex`. The push happens under
 *  the mutex, so a reader of ENDED finds the submission in the queue, and after LEFT the
 *  thread touches neither the engine nor its poller.
 */
#ifndef TRYST_CONTEXT_OPENER_H
#define TRYST_CONTEXT_OPENER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/log/log.h"
#include "core/text/err.h"
#include "core/thread/thread.h"
#include "rendezvous/op/op.h"
#include "transports/module.h"
#include "tryst/tryst.h"

/** A start that takes longer than this is reported. */
#define OPENER_SLOW_NS NS_PER_S

struct config;
struct opener;

struct opener_ops {
    /** Run the foreign code, which may block. Called in the opener's thread. */
    void (*run)(struct opener *opener);
    /** Hand the results of `run` to the context. Called in the progress domain. */
    void (*ended)(struct opener *opener);
    /** Release the results of `run`, and free the record. Called in the opener's
     *  thread, after opener_leave. */
    void (*undo)(struct opener *opener);
};

enum opener_state { OPENER_NEW, OPENER_RUNS, OPENER_ENDED, OPENER_LEFT };

/** The first member of a start's record. */
struct opener {
    const struct opener_ops *ops;
    const char *name;             /**< of the foreign code; static */
    struct submission submission; /**< carries ENDED into the progress domain */
    struct rendezvous *rdv;
    struct config *config; /**< a copy */
    struct log log;        /**< a copy; silent once the state is LEFT */
    /** The host table over `config` and `log`, for foreign code and the rails that it
     *  opens. */
    struct tryst_host host;
    uint64_t begin_ns; /**< when opener_init was called */
    uint64_t spent_ns; /**< time from begin_ns to the end of `run` */
    bool taken;        /**< `ended` has been called; of the progress domain */
    bool has_thread;
    struct thread thread;
    pthread_mutex_t mutex;
    pthread_cond_t wake; /**< signalled when RUNS ends */
    enum opener_state state;
};

/** Copy the thread's input from the context; `name` is the foreign code's, static.
 *  TRYST_OK, TRYST_E_NOMEM, TRYST_E_SYSTEM. */
tryst_status opener_init(struct opener *opener, const struct opener_ops *ops,
                         const char *name, const tryst_ctx *ctx);
/** Call `run` in a new thread, all signals blocked; `ended` follows in a pass.
 *  TRYST_E_SYSTEM: the thread cannot be created, and nothing has happened. Any thread. */
tryst_status opener_start(struct opener *opener);
/** True if `run` should call no more foreign code: the record was left, or the process
 *  exits. Called by `run` before each step of a start. */
bool opener_stops(struct opener *opener);
/** Call `run` in this thread; the caller calls `ended`. */
void opener_run(struct opener *opener);
/** True if a thread was started and `ended` has not been called. Progress domain. */
bool opener_pending(const struct opener *opener);
/** Wait until `run` has ended, up to `until_ns` (clock_monotonic_ns). */
void opener_wait(struct opener *opener, uint64_t until_ns);
/** Leave the record to the thread, which calls `undo`. False: `run` has ended, and a
 *  pass calls `ended`. */
bool opener_leave(struct opener *opener);
/** Free the members that opener_init created. `run` has ended or never begun. */
void opener_close(struct opener *opener);

#endif
