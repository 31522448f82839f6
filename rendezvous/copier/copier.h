/* SPDX-License-Identifier: Apache-2.0 */
/** @file copier.h
 *  Copies between devices and host memory for collectives, in a thread of their own.
 *
 *  Idea: any call of a device's driver may wait for the program's streams, so one thread
 *  of a context, the copier's, makes all driver calls of collectives: a driver that waits
 *  stops device collectives only. The thread is created with the first range, and ends in
 *  copier_close.
 *
 *  A *range* is a copy that grows. It is copied in pieces, in order from byte 0, up to a
 *  limit that its owner raises. The most urgent range that may copy goes first; equally
 *  urgent ones, those of one collective, take turns. A GPU's copies know no priority, so
 *  few bytes are in flight in each direction (copier_streams.c).
 *
 *    copier_add      `ready` has passed      all copied, or canceled or failed;
 *   ───────────▶ HELD ────────────────▶ OPEN ─────────────────────────────────▶ ENDED
 *                  └───────────────────────── and no copy is in flight ──────────▲
 *
 *  Ownership: the caller owns the range. The copier uses it from copier_add until it
 *  calls `moved` with `ended` set; from the start of that call on the range and its
 *  memory are the caller's again.
 *
 *  Another thread may *take* a range, and copy the rest itself (takeover.h). It holds the
 *  copier meanwhile (copier_hold): one thread at a time is in the streams and ranges.
 */
#ifndef TRYST_RENDEZVOUS_COPIER_COPIER_H
#define TRYST_RENDEZVOUS_COPIER_COPIER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/memory/urgent.h"
#include "tryst/status.h"

struct copier;
struct copier_stream;
struct memory_ops;
struct log;
struct closed_gates;
struct shadows;
struct takeovers;
struct trace;

/** Bytes of the text of a failure. */
enum { COPIER_TEXT_BYTES = 160 };

enum copier_way {
    COPIER_FETCH, /**< from the device to host memory */
    COPIER_BRING, /**< from host memory to the device */
    COPIER_WAYS
};

enum copier_state { COPIER_HELD, COPIER_OPEN, COPIER_ENDED };

/** The part of a taken range that the copier has not done. */
struct copier_rest {
    uint64_t from; /**< bytes before this one are copied, or in flight */
    uint64_t upto; /**< end of what is left; `from` after a failure or a cancel */
    void *ready;   /**< event that must pass first; NULL: it has passed */
    /** Event of the device that passes when all pieces in flight are copied, or NULL. It
     *  is recorded again for another piece after copier_release. */
    void *flying;
};

/** One range. The caller fills in the first block and `limit`, and zeroes the rest. */
struct copier_range {
    /* Constant from copier_add until the range has ended. */
    const struct memory_ops *ops; /**< memory ops of the device */
    int32_t device;
    enum copier_way way;
    void *device_data;
    void *host_data;
    uint64_t bytes; /**< 0: the range only waits for `ready` */
    /** Event of the device that must pass before the first copy, or NULL. The event is
     *  polled. */
    void *ready;
    struct urgency urgency; /**< after copier_add only copier_urge changes it */
    /** Called on the copier's thread, or the thread that takes the range: `done` has
     *  grown, or the range has ended. Must neither block nor call the copier. */
    void (*moved)(struct copier_range *range);

    /** Bytes that may be copied: FETCH: all. After copier_add only copier_raise changes
     *  it. */
    uint64_t limit;
    /** Bytes that have been copied, in order from 0. The copier stores it with release,
     *  so a thread that loads it with acquire sees these bytes. Once the range is taken,
     *  the owner stores it. */
    _Atomic uint64_t done;

    /** True in the last `moved`; the two members below are then final. A thread other
     *  than the copier's reads them after `moved` has signalled it. */
    bool ended;
    /** TRYST_OK: all bytes are copied, or the range was taken. TRYST_E_CANCELED,
     *  TRYST_E_NOMEM, or the status of
     *  the driver's call that failed. */
    tryst_status status;
    char text[COPIER_TEXT_BYTES]; /**< the reason of a failure, a sentence; else "" */
    struct copier_rest rest;      /**< valid once the range was taken */

    /* Private. Guarded by the copier's lock: */
    struct list_node mail;
    bool is_known;         /**< the copier's thread has taken the range */
    bool is_canceled;      /**< copier_cancel was called */
    struct urgency wanted; /**< urgency of the last copier_urge, while `is_urged` */
    bool is_urged;
    /* Private to the thread that holds the copier: */
    enum copier_state state;
    struct list_node node;        /**< among the held ranges */
    struct urgent_node turn;      /**< in the queue of its stream while it may copy */
    struct list_node report;      /**< `moved` is due */
    struct copier_stream *stream; /**< NULL while HELD */
    uint64_t room;                /**< `limit` when the thread last took the mail */
    uint64_t queued;              /**< bytes that were given to the driver */
    uint32_t flying;              /**< pieces in flight */
    uint32_t fails;               /**< consecutive failures of polls of `ready` */
    bool stops;                   /**< canceled or failed: no copy begins */
    /* Private to takeover.c, once taken: */
    uint32_t pieces_before, pieces; /**< of the rest: pieces queued before it, and its */
};

struct copier_params {
    /** Pool of shadows, or NULL: the copier's thread pins and frees its memory. Must stay
     *  until the copier is closed. */
    struct shadows *shadows;
    /** Gates of collectives that are closed: while there are any, the copier's thread
     *  neither pins nor frees, nor does a take-over (takeover.h). */
    struct closed_gates *closed;
    const struct log *log;
    struct trace *trace;
};

tryst_status copier_open(const struct copier_params *params, struct copier **copier_p);
/** Close the copier when all ranges have ended and all shadows have come back; NULL is
 *  allowed. Waits for its thread, which closes streams and frees pinned memory, and so
 *  may wait for the device and enters the progress domain (memory_release): the caller
 *  must not hold the progress lock. */
void copier_close(struct copier *copier);

/** Start a range. Any thread; makes no driver call. TRYST_E_NOMEM, TRYST_E_SYSTEM: the
 *  copier's thread cannot be created, and the range stays the caller's. */
tryst_status copier_add(struct copier *copier, struct copier_range *range);
/** Raise the limit of a range; a lower one and a range that has ended stay as they are.
 *  The bytes up to `limit` were written before this call. Any thread that keeps the range
 *  alive. */
void copier_raise(struct copier *copier, struct copier_range *range, uint64_t limit);
/** Change the urgency of a range. Any thread that keeps the range alive. */
void copier_urge(struct copier *copier, struct copier_range *range,
                 const struct urgency *urgency);
/** Start no further copy of a range. The range ends as soon as no copy is in flight. A
 *  piece that the copier's thread is queuing at this moment counts as in flight. Any
 *  thread that keeps the range alive. */
void copier_cancel(struct copier *copier, struct copier_range *range);

/** Hold the copier: its thread neither calls the driver nor `moved`. False: the thread is
 *  in such a call. Any thread, but not from `moved`. */
bool copier_hold(struct copier *copier);
void copier_release(struct copier *copier);

/* The functions below need copier_hold. */

/** Open the copier's streams of a device. May wait for the device. */
tryst_status copier_streams_prepare(struct copier *copier, const struct memory_ops *ops,
                                    int32_t device);
/** True if the range may be taken: the ends of its pieces in flight are recorded. */
bool copier_may_take(struct copier *copier, struct copier_range *range);
/** Take a range: set range->rest. Unless the range has ended, it ends with TRYST_OK,
 *  however much is copied (a canceled or failed one as otherwise), and `moved` is called.
 *  Makes no driver call. */
void copier_take(struct copier *copier, struct copier_range *range);
/** Return what takes of this copier share. */
struct takeovers *copier_takeovers(struct copier *copier);

#endif
