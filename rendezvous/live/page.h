/* SPDX-License-Identifier: Apache-2.0 */
/** @file page.h
 *  The writer of the live page (tryst/live.h), which shows a rank's work to other
 *  processes.
 *
 *  Idea: an operation has a place on the page from its submission to its completion, so
 *  the page is right whenever the process is stopped, and wherever it hangs. A place
 *  takes some ten words; the key is copied only if the place held another key before, and
 *  a key takes the place that its hash names, where that is free.
 *  Invariant: one writer at a time, the holder of the progress lock. A page that could
 *  not be created is missing, with no other effect.
 */
#ifndef TRYST_RENDEZVOUS_LIVE_PAGE_H
#define TRYST_RENDEZVOUS_LIVE_PAGE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "rendezvous/match/prepared.h"
#include "tryst/live.h"

/** Places for operations: 59 KiB of page. */
enum { LIVE_OPS_MAX = 128 };

typedef _Atomic(uint64_t) live_word;

/** Words of an operation's record (struct tryst_live_op; page.c checks them). */
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
    LIVE_KEY,
    LIVE_BEHIND = LIVE_KEY + TRYST_LIVE_KEY_MAX / sizeof(uint64_t)
};

struct live {
    bool taken[LIVE_OPS_MAX];  /**< by place */
    uint32_t free_count;       /**< of places */
    uint32_t next;             /**< where to look for another place */
    struct tryst_live_op *ops; /**< on the page */
    uint8_t waits;             /**< enum tryst_live_wait, as on the page */
    const void *waits_for; /**< operation that the thread waits for; only an address */
    uint32_t peers_count;
    struct tryst_live_header *header;
    char *page; /**< the header's address, to count in bytes */
    size_t page_bytes;
    int fd;
    /** The thread that waited last, and its id; in a forked child both are stale. */
    int32_t tid;
    pthread_t thread;
};

/** Write a key that differs from the one that the place held before. */
void live_key_put(live_word *record, const tryst_key *key);

/** Store a word with release, which pairs with a reader's acquires (page.c). */
static inline void live_put(live_word *word, uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_release);
}

/** Values of an operation that begins. */
struct live_op {
    uint16_t kind_state; /**< the kind, and the state above it */
    int32_t rank;        /**< rank of the peer; -1: none */
    uint64_t step, number, bytes, since_ns;
    const tryst_key *key; /**< NULL: the close of a step, which has none */
};

/** Reason why the next slice of a send does not start. */
struct live_hold {
    uint16_t why;    /**< enum tryst_live_hold */
    uint64_t behind; /**< hash of the key of the send that goes first; 0: none */
};

/** Write the word of kind, state and (above them) hold, and the peer's rank. */
static inline void live_what_put(live_word *record, uint32_t what, int32_t rank)
{
    live_put(&record[LIVE_WHAT], what | (uint64_t)(uint32_t)rank << 32);
}

/** Take a place for an operation that was submitted. Each operation costs some forty
 *  instructions here. Returns the place; NULL: none is free, and the operation is only
 *  counted. */
__attribute__((always_inline)) static inline live_word *live_op_add(
    struct live *live, const struct live_op *op)
{
    uint64_t hash = op->key ? op->key->hash : 0;
    uint32_t place = hash % LIVE_OPS_MAX;
    if (!live->free_count)
        return NULL;
    /* The second: a rank that sends to itself has two operations of one key. */
    if (live->taken[place] && live->taken[place ^= 1]) {
        /* Operations of one key mostly end in their order, so this is short. */
        while (live->taken[live->next])
            live->next = (live->next + 1) % LIVE_OPS_MAX;
        place = live->next;
    }
    live->taken[place] = true;
    live->free_count--;
    live_word *record = (live_word *)(void *)&live->ops[place];
    /* relaxed: one thread writes at a time, and the lock passes its writes on. */
    uint64_t n = atomic_load_explicit(&record[LIVE_BEGUN], memory_order_relaxed) + 1;
    atomic_store_explicit(&record[LIVE_BEGUN], n, memory_order_relaxed);
    live_what_put(record, op->kind_state, op->rank);
    live_put(&record[LIVE_STEP], op->step);
    live_put(&record[LIVE_NUMBER], op->number);
    live_put(&record[LIVE_BYTES], op->bytes);
    live_put(&record[LIVE_DONE], 0);
    live_put(&record[LIVE_SINCE], op->since_ns);
    if (atomic_load_explicit(&record[LIVE_HASH], memory_order_relaxed) != hash)
        live_key_put(record, op->key);
    live_put(&record[LIVE_ENDED], n);
    return record;
}

/** Free the place of an operation that has completed; another operation may take it from
 *  now on. Clearing one word is enough: a reader that has read the others before has
 *  values that were true then. */
static inline void live_op_forget(struct live *live, live_word *record)
{
    live->taken[(struct tryst_live_op *)(void *)record - live->ops] = false;
    live->free_count++;
    live_put(&record[LIVE_WHAT], 0);
}

/** Write the values that change while an operation is pending: state and bytes of `op`,
 *  bytes done, and the hold. */
void live_op_put(live_word *record, const struct live_op *op, uint64_t done_bytes,
                 const struct live_hold *hold);

/** Create the page of a rank. `held` is the byte that is nonzero while a thread is inside
 *  the engine. Returns TRYST_OK, or the reason for no page: no memory, or no
 *  descriptor. */
tryst_status live_open(int rank, int size, const void *held, uint64_t now_ns,
                       struct live **live_p);
void live_close(struct live *live);
/** Write a peer's record; `peer->rank` is below peers_count. */
void live_peer_put(struct live *live, const struct tryst_live_peer *peer);
void live_counts(struct live *live, uint64_t pending, uint64_t completed,
                 uint64_t now_ns);
/** Write 1 + the id of the newest step, and the number of open steps. */
void live_steps(struct live *live, uint64_t end, uint64_t open);
void live_transport(struct live *live, int kind);
void live_phase(struct live *live, enum tryst_live_phase phase);
void live_session(struct live *live, uint64_t session);
/** True if the page shows already that the thread waits in this way for `op`. */
static inline bool live_waits_so(const struct live *live, enum tryst_live_wait how,
                                 const void *op)
{
    return live->waits == how && live->waits_for == op;
}
/** Show that the thread waits in this way for `op`, at place `record` (NULL: none). */
void live_wait(struct live *live, enum tryst_live_wait how, const void *op,
               const live_word *record, uint64_t now_ns);
/** Show that the thread has left the engine. */
void live_leave(struct live *live);
/** Close the page's descriptor in a forked child (async-signal-safe). */
void live_forked(struct live *live);

#endif
