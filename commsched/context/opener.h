/* SPDX-License-Identifier: Apache-2.0 */
/** @file opener.h
 *  Foreign starts, each in a separate thread: loading a module, opening a fabric, starting a driver.
 *
 *            opener_start            run ends; `ended` follows in the next pass
 *     (new) ─────────────▶ RUNS ──────────────────────────────────────────────▶ ENDED
 *                           │
 *                           │ opener_leave: a close has waited long enough
 *                           ▼
 *                          LEFT ──── run ends ────▶ `undo`, in the thread (freed)
 *
 *  Idea: foreign code may take seconds or minutes to start (UCX reads all interfaces of the host, a driver
 *  wakes its devices), so none of it runs under the progress lock. The thread gets a record with copies of
 *  all that it needs: configuration, log, host table. It touches nothing of the context.
 *
 *  Ownership: the record is its creator's until opener_start, the thread's while the state is RUNS or LEFT,
 *  and the progress domain's once it is ENDED. The thread hands the record over by a submission, so `ended`
 *  runs in a pass; the push is a release, the drain an acquire (core/memory/mpsc.h), which orders all that `run`
 *  wrote before all that `ended` reads. `state` alone is shared: `mutex` guards it. The push happens under
 *  the mutex, so a reader of ENDED finds the submission in the queue, and after LEFT the thread touches
 *  neither the engine nor its poller.
 */
#ifndef COMMSCHED_CONTEXT_OPENER_H
#define COMMSCHED_CONTEXT_OPENER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/log/log.h"
#include "core/text/err.h"
#include "rendezvous/op/op.h"
#include "transports/module.h"
#include "tryst/tryst.h"

/** A start that takes longer than this is reported. */
#define OPENER_SLOW_NS NS_PER_S

struct config;
struct opener;

struct opener_ops {
    /** Thread of the opener: blocks as long as the foreign code does. */
    void (*run)(struct opener *opener);
    /** Progress domain: what `run` has made is the context's. */
    void (*ended)(struct opener *opener);
    /** Thread of the opener, after opener_leave: give back what `run` has made, and the record. */
    void (*undo)(struct opener *opener);
};

enum opener_state { OPENER_NEW, OPENER_RUNS, OPENER_ENDED, OPENER_LEFT };

/** The first member of a start's record. */
struct opener {
    const struct opener_ops *ops;
    struct submission submission; /**< carries ENDED into the progress domain */
    struct rendezvous *rdv;
    struct config *config; /**< a copy */
    struct log log;        /**< a copy; silent once the state is LEFT */
    tryst_host host; /**< of the two: for foreign code, and for the rails that it makes */
    uint64_t begin_ns; /**< when it started */
    uint64_t spent_ns; /**< what `run` took */
    bool taken;        /**< `ended` has been called. Progress domain */
    bool has_thread;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t wake; /**< signalled when RUNS ends */
    enum opener_state state;
};

/** Copy what the thread needs. TRYST_OK, TRYST_E_NOMEM, TRYST_E_SYSTEM. */
tryst_status opener_init(struct opener *opener, const struct opener_ops *ops,
                         const tryst_ctx *ctx);
/** Run in a separate thread, all signals blocked: `ended` follows in a pass. TRYST_E_SYSTEM: the thread
 *  cannot be created, and nothing has happened. Any thread. */
tryst_status opener_start(struct opener *opener);
/** Run here and now; `ended` is the caller's to call. */
void opener_run(struct opener *opener);
/** True until `ended` was called. Progress domain. */
bool opener_pending(const struct opener *opener);
/** Wait until `run` has ended, up to `until_ns` (clock_monotonic_ns). */
void opener_wait(struct opener *opener, uint64_t until_ns);
/** Leave the record to the thread: `undo` frees it there. False: `run` has ended, and a pass calls `ended`. */
bool opener_leave(struct opener *opener);
/** Free what opener_init made. `run` has ended, or never begun. */
void opener_close(struct opener *opener);

#endif
