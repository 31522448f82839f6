/* SPDX-License-Identifier: Apache-2.0 */
/** @file live.h
 *  The live page: the state of a rank, for observers in other processes (tryst-info
 *  --live). Library: libtryst.
 *
 *  Each context maps a memfd from tryst_group_open to tryst_group_close and writes into
 *  it while it runs, so the page can be read when the process makes no progress, is in a
 *  kernel call or is stopped. The page's link in /proc/PID/fd begins with
 *  "/memfd:" TRYST_LIVE_NAME, followed by the rank. Any process that may read that folder
 *  (the same user) may map the page, read-only. Its size never changes (sealed). A forked
 *  child may still have the page open; `pid` is then not the child's.
 *
 *  Layout: the header, then `peers_count` peer records and `ops_count` operation records,
 *  at the offsets and in the sizes that the header names. The header is written before
 *  the page can be found; later only its marked words change. All fields are
 *  little-endian and naturally aligned.
 *
 *  A record opens with two words, `begun` and `ended`. The writer raises begun, writes
 *  the other words, each with release, and raises ended likewise. A reader loads ended,
 *  copies the words, each with acquire, and loads begun: the copy is whole if begun
 *  equals ended. If they differ for long, the writer was stopped or killed inside this
 *  one record.
 *
 *  An operation is on the page from its submission to its completion, if one of the
 *  `ops_count` records is free; `pending` counts all operations. Times are
 *  CLOCK_MONOTONIC of the process's time namespace, in nanoseconds.
 *
 *  Readers refuse an unknown `layout`. Fields are appended, never moved.
 */
#ifndef TRYST_LIVE_H
#define TRYST_LIVE_H

#include <stdint.h>

#define TRYST_LIVE_NAME   "tryst-live-rank"
#define TRYST_LIVE_MAGIC  UINT64_C(0x4556494c54535254) /* "TRSTLIVE" */
#define TRYST_LIVE_LAYOUT 2u
/** Longer keys are cut (`key_bytes` is the whole length); `key_hash` is the hash of the
 *  whole key. */
#define TRYST_LIVE_KEY_MAX 384u

/** Phase of a rank's life: header.phase. */
enum tryst_live_phase {
    TRYST_LIVE_GATHERING = 1, /**< in tryst_group_open: the ranks come together */
    TRYST_LIVE_OPEN = 2,
    TRYST_LIVE_CLOSING = 3 /**< in tryst_group_close */
};

/** where.waits: state of the thread that makes progress, once the state has lasted longer
 *  than TRYST_SPIN. */
enum tryst_live_wait {
    TRYST_LIVE_BUSY = 0, /**< none of the other states */
    /** inside tryst_wait, or the progress thread: mostly asleep */
    TRYST_LIVE_IN_WAIT = 1,
    /** outside the library: tryst_arm was the last call, and the caller's loop sleeps */
    TRYST_LIVE_ARMED = 2
};

/** op.kind. A close waits for the operations of its step. A collective waits for the
 *  other ranks. */
enum tryst_live_kind {
    TRYST_LIVE_SEND = 0,
    TRYST_LIVE_RECV = 1,
    TRYST_LIVE_CLOSE = 2,
    TRYST_LIVE_COLL = 3
};

/** op.state, as of the last tick (every 0.5 s). While the endpoint to the peer is not
 *  ready, an operation waits for the endpoint. After that a receive waits for its send,
 *  unless done_bytes shows that bytes have come. */
enum tryst_live_state {
    TRYST_LIVE_SUBMITTED = 0, /**< the only state of a close */
    TRYST_LIVE_POSTED = 1,    /**< a send: the consumer has not posted the receive */
    TRYST_LIVE_WANTED = 2,    /**< a receive: announced to its producer */
    TRYST_LIVE_DEFERRED = 3,  /**< a receive: its producer has no room for it now */
    /** a small send: it has left, or leaves now; the receive does not have it yet */
    TRYST_LIVE_INLINE = 4,
    TRYST_LIVE_MATCHED = 5, /**< a send: both sides have met, bytes are under way */
    TRYST_LIVE_ENDING = 6   /**< it has failed; the transport still holds the buffer */
};

/** op.hold: the reason why the next slice of a send in flight has not left, as of the
 *  last tick. */
enum tryst_live_hold {
    TRYST_LIVE_HOLD_NONE = 0,      /**< no known delay: all slices have left */
    TRYST_LIVE_HOLD_UNPOSTED = 1,  /**< the receiver has posted no further slice */
    TRYST_LIVE_HOLD_BEHIND = 2,    /**< the send `behind` goes first */
    TRYST_LIVE_HOLD_WINDOW = 3,    /**< the window towards the peer is full */
    TRYST_LIVE_HOLD_RAIL = 4,      /**< the window of the network interface is full */
    TRYST_LIVE_HOLD_TRANSPORT = 5, /**< the transport had no room */
    TRYST_LIVE_HOLD_UNREADY = 6    /**< this rank does not have the bytes yet (a sum) */
};

/** State of the thread that makes progress. A record. */
struct tryst_live_where {
    uint64_t begun, ended;
    uint64_t since_ns; /**< start of this state */
    /** 1 + index, among the records of operations, of the operation that the thread waits
     *  for; 0: none, or several */
    uint64_t op;
    uint32_t waits; /**< enum tryst_live_wait */
    int32_t tid;    /**< thread id in the process's own pid namespace */
};

struct tryst_live_header {
    uint64_t magic;
    uint32_t layout;
    uint32_t header_bytes;
    char version[24]; /**< version of the library, terminated */
    uint32_t peers_offset, peers_count, peer_bytes;
    uint32_t ops_offset, ops_count, op_bytes;
    uint64_t page_bytes;
    int32_t pid; /**< process id in the process's own pid namespace */
    int32_t rank, size;
    uint32_t reserved;
    uint64_t opened_ns;
    /** address in that process of a byte that is 1 while a thread is inside the engine */
    uint64_t held_address;

    /** Marked words: written later, each word by itself. */
    /** the run's number, equal on its ranks and in files that they write; 0 while they
     *  come together */
    uint64_t session;
    uint64_t phase;
    /** time of the engine's last tick; there is one every 0.5 s while a thread drives the
     *  engine */
    uint64_t seen_ns;
    uint64_t steps_end;  /**< 1 + highest step id opened so far; 0: none yet */
    uint64_t steps_open; /**< number of open steps */
    /** number of operations that have not completed, on the page or not: as of `seen_ns`,
     *  or of the last submission that found no free record */
    uint64_t pending;
    uint64_t completed; /**< operations that have completed, as of `seen_ns` */
    /** transports opened so far: bit n (from 0) is the n-th of self, shm, ucx, ofi */
    uint64_t transports;
    struct tryst_live_where where;
};

struct tryst_live_peer {
    uint64_t begun, ended;
    int32_t rank;
    uint8_t life; /**< 0 alive, 1 has left, 2 being given up, 3 gone */
    uint8_t link; /**< 0 none, 1 connecting, 2 up */
    /** 0 none, 1 opening, 2 ready, 3 closing, 4 refused: the next transport follows */
    uint8_t endpoint;
    uint8_t reserved;
    int32_t pid; /**< the peer's process id as this process sees it; 0: not known */
    /** packets of up to this many bytes to the peer (from the peer) are lost on the way,
     *  while small ones arrive; 0: none is known to be */
    uint16_t lost_to_mtu, lost_from_mtu;
    uint64_t frames_sent, frames_acked, frames_read;
    uint64_t in_flight_bytes; /**< bulk started and not acknowledged */
    uint64_t bytes_sent, bytes_received;
    char transport[8]; /**< terminated; empty until first used */
    /** how bulk moves, or why the peer is gone; terminated, may be cut */
    char mechanism[64];
    /** window_bytes: bytes that may be in flight to the peer. slice_bytes: slice
     *  size requested from the peer. Both are 0 until first used. */
    uint64_t window_bytes, slice_bytes;
    /** bandwidth from which window_bytes and slice_bytes follow; 0: not known */
    uint64_t bytes_per_s;
    /** round trip from which window_bytes follows, without the time that the bytes
     *  themselves take; 0: not known */
    uint64_t rtt_ns;
};

struct tryst_live_op {
    uint64_t begun, ended;
    uint8_t kind;  /**< enum tryst_live_kind */
    uint8_t state; /**< enum tryst_live_state; if kind is 0 too, 0: a free record */
    uint16_t hold; /**< enum tryst_live_hold */
    /** rank of the peer; for a collective a rank that it waits for, or -1; meaningless
     *  for a close */
    int32_t peer;
    uint64_t step;
    /** number of the operation among those of its key in the step, from 0 */
    uint64_t number;
    uint64_t bytes; /**< bytes of the tensor; 0 where not known yet */
    uint64_t done_bytes;
    uint64_t since_ns;            /**< time of the submission */
    uint64_t key_hash;            /**< XXH3-64 of the whole key; 0: no key */
    uint64_t key_bytes;           /**< bytes of the whole key */
    char key[TRYST_LIVE_KEY_MAX]; /**< the key's first bytes, not terminated */
    uint64_t behind; /**< TRYST_LIVE_HOLD_BEHIND: key_hash of the send that goes first */
};

#endif
