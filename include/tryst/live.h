/* SPDX-License-Identifier: Apache-2.0 */
/** @file live.h
 *  The live page: what a rank is doing, for observers outside (tryst-info --live).
 *  Library: libtryst.
 *
 *  Each context maps a memfd from tryst_group_open to tryst_group_close and writes into it as it
 *  goes, so it can be read when the process makes no progress, sits in a kernel call or is stopped.
 *  It is found as a descriptor whose link in /proc/PID/fd begins with "/memfd:" TRYST_LIVE_NAME,
 *  followed by the rank; whoever may look into that folder (the same user) may map it, read-only.
 *  Its size never changes (sealed); `pid` tells it from a copy that a fork left open.
 *
 *  Layout: the header, which is written before the page can be found and then only at its marked
 *  words; then `peers_count` peer records and `ops_count` operation records, at the offsets and in
 *  the sizes that the header names. All fields are little-endian and naturally aligned.
 *
 *  A record opens with two words, `begun` and `ended`. The writer raises begun, writes the other
 *  words, each with release, and raises ended likewise. A reader loads ended, copies the words, each
 *  with acquire, and loads begun: what it copied is whole if begun equals ended. If they differ for
 *  long, the writer was stopped or killed inside this one record.
 *
 *  An operation is on the page from its submission to its completion, if one of `ops_count` places
 *  is free; `pending` counts them all. Times are CLOCK_MONOTONIC of that host, in nanoseconds.
 *
 *  Readers refuse a `layout` that they do not know. Fields are appended, never moved.
 */
#ifndef TRYST_LIVE_H
#define TRYST_LIVE_H

#include <stdint.h>

#define TRYST_LIVE_NAME   "tryst-live-rank"
#define TRYST_LIVE_MAGIC  UINT64_C(0x4556494c54535254) /* "TRSTLIVE" */
#define TRYST_LIVE_LAYOUT 2u
/** Longer keys are cut (`key_bytes` tells); `key_hash` is of the whole. */
#define TRYST_LIVE_KEY_MAX 384u

/** Where a rank is in its life: header.phase. */
enum tryst_live_phase {
    TRYST_LIVE_GATHERING = 1, /**< in tryst_group_open: the ranks come together */
    TRYST_LIVE_OPEN = 2,
    TRYST_LIVE_CLOSING = 3 /**< in tryst_group_close */
};

/** What its thread does, once it has done it for longer than TRYST_SPIN: where.waits. */
enum tryst_live_wait {
    TRYST_LIVE_BUSY = 0, /**< nothing of these */
    TRYST_LIVE_IN_WAIT =
        1,               /**< inside tryst_wait, or the progress thread: mostly asleep */
    TRYST_LIVE_ARMED = 2 /**< outside: tryst_arm was its last call, its loop sleeps */
};

/** op.kind; a close waits for the operations of its step; a collective, for the other ranks, and it has no
 *  rank (-1). */
enum tryst_live_kind {
    TRYST_LIVE_SEND = 0,
    TRYST_LIVE_RECV = 1,
    TRYST_LIVE_CLOSE = 2,
    TRYST_LIVE_COLL = 3
};

/** op.state, as of the last tick. What is missing: before the endpoint to the peer is ready,
 *  that; then, for a receive, the send, unless done_bytes says that bytes have come. */
enum tryst_live_state {
    TRYST_LIVE_SUBMITTED = 0, /**< a close is in no other */
    TRYST_LIVE_POSTED = 1,    /**< a send: its consumer has not posted the receive */
    TRYST_LIVE_WANTED = 2,    /**< a receive: its producer was told */
    TRYST_LIVE_DEFERRED = 3,  /**< a receive: its producer has no room for it now */
    TRYST_LIVE_INLINE =
        4, /**< a small send: it has left, or is about to; not taken yet */
    TRYST_LIVE_MATCHED = 5, /**< a send: both sides have met, bytes are under way */
    TRYST_LIVE_ENDING = 6   /**< it has failed; the transport still holds its buffer */
};

/** op.hold: what keeps the next slice of a send, whose bytes are under way, from leaving, as of the last
 *  tick. */
enum tryst_live_hold {
    TRYST_LIVE_HOLD_NONE = 0,      /**< nothing that is known: all have left */
    TRYST_LIVE_HOLD_UNPOSTED = 1,  /**< the receiver has posted no further one */
    TRYST_LIVE_HOLD_BEHIND = 2,    /**< `behind` has its turn before */
    TRYST_LIVE_HOLD_WINDOW = 3,    /**< as much is in flight to its peer as may be */
    TRYST_LIVE_HOLD_RAIL = 4,      /**< or on its network interface */
    TRYST_LIVE_HOLD_TRANSPORT = 5, /**< the transport had no room */
    TRYST_LIVE_HOLD_UNREADY = 6,   /**< its rank does not have the bytes yet (a sum) */
    TRYST_LIVE_HOLD_PACE = 7 /**< the pace that the plan gives to the path to its peer */
};

/** Where the thread is that progresses. A record. */
struct tryst_live_where {
    uint64_t begun, ended;
    uint64_t since_ns; /**< when that began */
    uint64_t op;    /**< 1 + place of the operation that it waits for; 0: none, or many */
    uint32_t waits; /**< enum tryst_live_wait */
    int32_t tid;    /**< thread, as its own pid namespace counts */
};

struct tryst_live_header {
    uint64_t magic;
    uint32_t layout;
    uint32_t header_bytes;
    char version[24]; /**< of the library, terminated */
    uint32_t peers_offset, peers_count, peer_bytes;
    uint32_t ops_offset, ops_count, op_bytes;
    uint64_t page_bytes;
    int32_t pid; /**< as its own pid namespace counts */
    int32_t rank, size;
    uint32_t reserved;
    uint64_t opened_ns;
    uint64_t
        held_address; /**< in that process: a byte, 1 while a thread is inside the engine */

    /* Written later, each word for itself. */
    uint64_t session; /**< equal on the ranks of one job; 0 while they come together */
    uint64_t phase;
    uint64_t
        seen_ns; /**< the engine's housekeeping ran last (every 0.5 s while it is driven) */
    uint64_t steps_end;  /**< 1 + newest step that was opened; 0: none yet */
    uint64_t steps_open; /**< how many are open */
    uint64_t
        pending; /**< operations that have not completed, on the page or not: as of `seen_ns`,
                       *   or of the last submission that found no place */
    uint64_t completed;  /**< operations that have, as of `seen_ns` */
    uint64_t transports; /**< opened so far: bit n is the n-th of self, shm, ucx, ofi */
    struct tryst_live_where where;
};

struct tryst_live_peer {
    uint64_t begun, ended;
    int32_t rank;
    uint8_t life; /**< 0 alive, 1 has left, 2 being given up, 3 gone */
    uint8_t link; /**< 0 none, 1 connecting, 2 up */
    uint8_t
        endpoint; /**< 0 none, 1 opening, 2 ready, 3 closing, 4 refused: the next transport follows */
    uint8_t reserved;
    int32_t pid; /**< of its process, as this one sees it; 0: not known */
    uint32_t reserved2;
    uint64_t frames_sent, frames_acked, frames_read;
    uint64_t in_flight_bytes; /**< bulk started and not acknowledged */
    uint64_t bytes_sent, bytes_received;
    char transport[8]; /**< terminated; empty until first used */
    char mechanism
        [64]; /**< how bulk moves, or why the peer is gone; terminated, may be cut */
    /** that may be in flight; into which the peer is asked to cut; 0 until first used */
    uint64_t window_bytes, slice_bytes;
    uint64_t bytes_per_s; /**< from which these follow, 0: not known */
    uint64_t rtt_ns;      /**< likewise, without the bytes' own time */
};

struct tryst_live_op {
    uint64_t begun, ended;
    uint8_t kind;  /**< enum tryst_live_kind */
    uint8_t state; /**< enum tryst_live_state; with kind, 0: this place is free */
    uint16_t hold; /**< enum tryst_live_hold */
    /** Rank; of a collective, one that it waits for, or -1; no matter for a close. */
    int32_t peer;
    uint64_t step;
    uint64_t number; /**< the how-manieth of its key in the step, from 0 */
    uint64_t bytes;  /**< of the tensor; 0 where not known yet */
    uint64_t done_bytes;
    uint64_t since_ns;            /**< submitted */
    uint64_t key_hash;            /**< XXH3-64 of the whole; 0: no key */
    uint64_t key_bytes;           /**< of the whole */
    char key[TRYST_LIVE_KEY_MAX]; /**< not terminated */
    uint64_t behind; /**< TRYST_LIVE_HOLD_BEHIND: key_hash of the send that comes first */
};

#endif
