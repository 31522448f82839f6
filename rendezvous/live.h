/* SPDX-License-Identifier: Apache-2.0 */
/** @file live.h
 *  The writer of the live page (tryst/live.h): what a rank is doing, for whoever looks from
 *  outside.
 *
 *  Idea: an operation has a place on the page from its submission to its completion, so the page
 *  is right whenever the process is stopped, and wherever it hangs. What the place says is some ten
 *  words; its key is copied only where another key stood there before.
 *  Invariant: one writer at a time, the holder of the progress role. A page that could not be made
 *  is missing, and nothing else is.
 */
#ifndef RENDEZVOUS_LIVE_H
#define RENDEZVOUS_LIVE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "rendezvous/match/prepared.h"
#include "rendezvous/op.h"
#include "tryst/live.h"

/** Places for operations: 64 KiB of page. */
enum { LIVE_OPS_MAX = 128 };

typedef _Atomic(uint64_t) live_word;

/** Words of an operation's record (struct tryst_live_op; live.c checks them). */
enum live_at {
    LIVE_BEGUN,
    LIVE_ENDED,
    LIVE_WHAT,
    LIVE_STEP,
    LIVE_NUMBER,
    LIVE_BYTES,
    LIVE_DONE,
    LIVE_SINCE,
    LIVE_HASH,
    LIVE_KEY_BYTES,
    LIVE_KEY
};

struct live {
    live_word
        *places[LIVE_OPS_MAX]; /**< records that are free: the first `places_count` */
    uint32_t places_count;
    uint8_t waits;             /**< enum tryst_live_wait, as it stands on the page */
    const tryst_op *waits_for; /**< likewise; only compared */
    uint32_t peers_count;
    struct tryst_live_header *header;
    char *page; /**< the same, in bytes */
    size_t page_bytes;
    int fd;
    /* The thread whose id was asked for last; a copy in a forked child is of no use. */
    int32_t tid;
    pthread_t thread;
};

/** Its key is not the one that stood in this place before. */
void live_key_put(live_word *record, const tryst_key *key);

/* release: partner of a reader's acquires; live.c has the argument. */
static inline void live_put(live_word *word, uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_release);
}

/** Kind, state and the rank of the peer. */
static inline void live_what_put(live_word *record, const tryst_op *op, int32_t rank)
{
    uint16_t kind_state; /* neighbours in tryst_op: one load */
    memcpy(&kind_state, &op->kind, sizeof kind_state);
    live_put(&record[LIVE_WHAT], kind_state | (uint64_t)(uint32_t)rank << 32);
}

/** It was submitted, and has not completed. Every operation comes by here: some forty
 *  instructions. Without a free place it is counted only. */
__attribute__((always_inline)) static inline void live_op_add(struct live *live,
                                                              tryst_op *op,
                                                              const tryst_key *key,
                                                              int32_t rank)
{
    if (!live->places_count)
        return;
    live_word *record = live->places[--live->places_count];
    op->live = record;
    /* relaxed: one thread writes at a time, and the role hands over what it wrote. */
    uint64_t n = atomic_load_explicit(&record[LIVE_BEGUN], memory_order_relaxed) + 1;
    atomic_store_explicit(&record[LIVE_BEGUN], n, memory_order_relaxed);
    live_what_put(record, op, rank);
    live_put(&record[LIVE_STEP], op->step_id);
    live_put(&record[LIVE_NUMBER], op->queued.seq);
    live_put(&record[LIVE_BYTES], op->bytes);
    live_put(&record[LIVE_DONE], 0);
    live_put(&record[LIVE_SINCE], op->submitted_ns);
    uint64_t before = atomic_load_explicit(&record[LIVE_HASH], memory_order_relaxed);
    if (before != (key ? key->hash : 0))
        live_key_put(record, key);
    live_put(&record[LIVE_ENDED], n);
}

/** It has completed, and has a place. One word is enough: all that stands there was true until
 *  now. op->live means nothing any more. */
static inline void live_op_forget(struct live *live, tryst_op *op)
{
    live_word *record = op->live;
    live->places[live->places_count++] = record;
    live_put(&record[LIVE_WHAT], 0);
}

/** The peer's state has changed. */
void live_peer(struct live *live, const struct peer *peer);
/** Housekeeping: everything anew. */
void live_tick(struct live *live, struct rendezvous *rdv, uint64_t now_ns);
/** The number of open steps, or the newest one, has changed. */
void live_steps(struct live *live, const struct rendezvous *rdv);
void live_transport(struct live *live, int kind);
void live_phase(struct live *live, enum tryst_live_phase phase);
void live_session(struct live *live, uint64_t session);
/** In a forked child (async-signal-safe). */
void live_forked(struct live *live);

#endif
