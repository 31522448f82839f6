/* SPDX-License-Identifier: Apache-2.0 */
/** @file takeover.h
 *  The take-over: a device's stream waits for a collective, and no driver call is left to
 *  do when the call returns (takeover.c).
 *
 *  Any call of a driver may wait until the program's streams are idle: a kernel's first
 *  launch loads the kernel, under a lock for which other threads' calls wait. If a stream
 *  waits for a collective, and the collective for a driver call, both hang. So the thread
 *  that lets a stream wait takes the ranges of the collective from the copier, and queues
 *  all that is left of their copies itself, within its call:
 *
 *      own stream  F        ready ─ piece ─ word ─ piece ─ word ─ …     the fetch
 *                                     │
 *      progress thread      polls the words; flows and sums; opens the gate
 *                                     │
 *      the caller's stream  gate ─ ready ─ the bring ─ end word ─ what the program queues
 *
 *  Device and progress thread meet in pinned words only. The copier's pieces in flight
 *  are awaited by event, in the stream that goes on with the range.
 *
 *  The fetch never goes into the caller's stream: there it would wait behind the gates of
 *  other collectives, and ranks that wait for A, B and for B, A would wait for each
 *  other. Each fetch has its own stream, because it may wait for its ready event.
 *
 *  States of a take-over:
 *
 *      FREE ── takeover_begin ──▶ CLOSED ── takeover_open ──▶ OPEN ── the caller's stream
 *       ▲                                                             has done the bring
 *       └──── takeover_put, and the copier has seen its event pass ◀── ENDED
 *
 *  Invariants:
 *  - While a gate is CLOSED, or a collective's gate of stream_wait.c, neither the copier
 *    nor a take-over makes a call that may wait for idle streams: to pin, to free, to
 *    open the streams of take-overs. A take-over makes such calls first, before it takes
 *    a range, or is tried again later.
 *  - A failed take-over has a status, and ends as others do. Its gate is opened, too.
 *  - A range's memory is in use until the take-over has ENDED.
 *  - Words only grow, so a stream that is late passes the words of later take-overs.
 *
 *  Locks and threads: takeover_begin is called by any thread, and holds the copier
 *  (copier_hold) during its calls of the driver. It waits for nothing else. The other
 *  functions are the progress domain's, and call no driver. The copier's thread
 *  polls the event behind the end word, for one reason: a device that is lost writes no
 *  word.
 *
 *  The pieces that a take-over has queued know no urgency.
 */
#ifndef TRYST_RENDEZVOUS_COPIER_TAKEOVER_H
#define TRYST_RENDEZVOUS_COPIER_TAKEOVER_H

#include "copier.h"

struct shadow;
struct takeover;

/** The shared state of a copier's take-overs; guarded by copier_hold. */
struct takeovers {
    struct list homes; /**< struct takeover_home: one per device */
    /** copier_params.closed, to which the CLOSED gates here are added. */
    struct closed_gates *closed;
};

void takeovers_open(struct takeovers *takeovers, struct closed_gates *closed);
/** Free streams, events and words; no take-over is left. On the copier's thread. */
void takeovers_close(struct takeovers *takeovers);
/** True if a gate of a collective is closed. Any thread. */
bool takeovers_closed(const struct takeovers *takeovers);

/** The ranges to take over, and the stream that waits. */
struct takeover_params {
    struct copier *copier;
    struct shadows *shadows;
    const struct memory_ops *ops;
    int32_t device;
    void *stream; /**< the caller's, of `device` */
    /** Return range `index`; all are of `device`, and were added. */
    struct copier_range *(*range)(void *arg, uint32_t index);
    /** Called once if the ranges are taken, before the stream waits: the functions of the
     *  progress domain below may be called from then on. */
    void (*taken)(void *arg, struct takeover *takeover);
    void *arg;
    uint32_t count;           /**< number of ranges */
    struct shadow *shadow[2]; /**< their host memory, or NULL */
};

/** Before a stream waits for a collective by a gate: open and pin what take-overs for
 *  this device need, which is impossible while the gate is closed. Any thread.
 *  TRYST_AGAIN: the copier's thread is in the driver; else TRYST_OK, also where nothing
 *  could be done. */
tryst_status takeovers_prepare(struct copier *copier, struct shadows *shadows,
                               const struct memory_ops *ops, int32_t device);
/** Take all ranges over, and let the stream wait.
 *
 *  TRYST_OK: taken. TRYST_AGAIN: nothing happened; a gate must open first, one of the
 *  device's 16 take-overs must end, or the copier's thread return from the driver; or the
 *  shadows cannot be pinned, and the copier does all copies.
 *  TRYST_E_UNSUPPORTED: nothing happened, and the stream cannot wait in this way;
 *  ops->error_text may have the reason. Any other status: taken, and the driver has
 *  failed; takeover_failure has the reason. */
tryst_status takeover_begin(const struct takeover_params *params);
/** Let another stream wait for the end of a take-over. Any thread that keeps it. */
tryst_status takeover_follow(const struct takeover *takeover,
                             const struct memory_ops *ops, int32_t device, void *stream);

/** Return how many bytes of a taken FETCH are in host memory. */
uint64_t takeover_fetched(const struct takeover *takeover,
                          const struct copier_range *range);
/** Let the caller's stream go on: the result is complete in host memory, or the operation
 *  has failed. Later calls do nothing. */
void takeover_open(struct takeover *takeover);
/** True if the device does, or will do without a call of this process, something that
 *  changes the words. */
bool takeover_moves(const struct takeover *takeover);
/** True if no copy is in flight, and none will begin; or the device is lost. */
bool takeover_ended(const struct takeover *takeover);
/** Return TRYST_OK, or the status of the driver's failure, with its reason. */
tryst_status takeover_failure(const struct takeover *takeover, const char **text_p);
/** Return an ENDED take-over. */
void takeover_put(struct takeover *takeover);

#endif
