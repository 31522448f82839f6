/* SPDX-License-Identifier: Apache-2.0 */
/** @file op.h
 *  One asynchronous operation, and the states that it goes through.
 *
 *  An operation has two lives. To the *user* it is in progress and then complete, once
 *  (op_report). To the *protocol* it lives as long as something of it is still to be said to a peer, or
 *  after it has failed, until its sequence number is consumed (op_end). Each life is a hold; all holds
 *  together are one reference, and the user's handle is another.
 *
 *  A receive:
 *
 *                 DATA (from POSTED, WANTED or DEFERRED), in place
 *              ┌──────────────┬────────────────────────────────────────────────────▶ ENDED
 *              │              │   (not in place: TAKEN)
 *   SUBMITTED ─▶ POSTED ─WANT─▶ WANTED ── bulk, all slices ─▶ TAKEN ── DONE sent ──▶ ENDED
 *                 │ ▲            │  │
 *                 │ │            │  └ DEFERRED ─▶ DEFERRED ─ OFFER ─▶ POSTED
 *                 │ └ shape known (OFFER) ┘         │
 *          cancel │            │ CANCELED, CLOSED   │ cancel
 *                 ▼            ▼                    ▼
 *               VOID        ENDING ── posted receives withdrawn ─────────────────▶ ENDED
 *                 └ WANT(VOID) answered, or DATA came ───────────────────────────▶ ENDED
 *
 *   cancel while WANTED only sends CANCEL; the answer (CANCELED, or the bytes) decides.
 *   VOID has been reported to the user; it stays to consume its number at the producer.
 *
 *  A send:
 *
 *                  no want, credit     acknowledged
 *   SUBMITTED ──┬───────────────▶ INLINE ─────────▶ ENDED
 *               │ no want              ▲ want, small
 *               ├───────────▶ POSTED ──┤
 *               │               │ │    └─▶ MATCHED ── all slices DONE, sends complete ─▶ ENDED
 *               │        cancel │ │ want,     │ cancel before the last slice, 
 *               │               ▼ └ large     │ abort: CANCELED{started}
 *               │             VOID            └──────▶ ENDING ── sends complete ───────▶ ENDED
 *               └ want
 *
 *   A send that fails before its DATA was packed, is dead, or does not fit its WANT goes out as
 *   DATA with a status and no bytes. VOID has been reported; the WANT of its number is answered
 *   by such DATA.
 */
#ifndef RENDEZVOUS_OP_OP_H
#define RENDEZVOUS_OP_OP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/memory/hash_table.h"
#include "core/memory/list.h"
#include "core/memory/mpsc.h"
#include "core/memory/urgent.h"
#include "rendezvous/match/flow_shape.h"
#include "rendezvous/match/prepared.h"
#include "rendezvous/match/queue.h"
#include "rendezvous/numbers/stream.h"
#include "tryst/tryst.h"

struct entry;
struct flow;
struct op_device;
struct peer;
struct recv_run;
struct rendezvous;
struct scope;
struct want;

/** OP_COLL: of the engine above (above.h); it has no peer. */
enum op_kind { OP_SEND, OP_RECV, OP_STEP_CLOSE, OP_COLL };

enum op_state {
    OP_SUBMITTED,
    OP_POSTED,   /**< in the table, its counterpart not known */
    OP_WANTED,   /**< receive: announced by a WANT that has not been answered */
    OP_DEFERRED, /**< receive: the producer had no room; waits for an OFFER */
    OP_INLINE,   /**< send: DATA pending or sent, not acknowledged */
    OP_MATCHED,  /**< send: its slices are in the dispatch or under way */
    OP_ENDING,   /**< failed; waits until the transport lets the buffer go */
    OP_TAKEN,    /**< receive: has its bytes, or not; its DONE is queued */
    OP_VOID,     /**< reported as failed; stays to consume its number */
    OP_ENDED
};

/** Records of an operation that are queued for its peer, in the order in which they leave. */
enum op_records {
    QUEUED_WANT = 1u,
    QUEUED_DATA = 2u,
    QUEUED_OFFER = 4u,
    QUEUED_CANCEL = 8u,
    QUEUED_RAISE = 16u,
    QUEUED_DONE = 32u
};

/** Something handed to the progress domain by any thread. */
struct submission {
    struct mpsc_node node;
    void (*run)(struct rendezvous *rdv, struct submission *submission);
};

/** Why an operation fails: the status that both its ends report, the rank where the failure began (-1: this
 *  one), and the status that this rank reported. */
struct cause {
    tryst_status status;
    int32_t origin_rank;
    tryst_status origin_status;
};

/** What the protocol above does for an operation. */
struct op_events {
    /** Cancel it, or fail it: deadlines, aborts, the user, a flow's owner. */
    void (*fail)(tryst_op *op, struct cause cause, const char *text);
    /** It becomes more urgent: `rank` of core/memory/urgency.h. Its flags and its priority say so already. */
    void (*raise)(tryst_op *op, uint64_t rank);
    /** Nobody holds it any more: free its op_device. Any thread. */
    void (*device_close)(tryst_op *op);
    /** Of the other end; -1: there is none. */
    int32_t (*peer_rank)(const tryst_op *op);
    /** End the flow that `op` moves: `op` has been reported. */
    void (*flow_ended)(tryst_op *op);
};

/** In two parts, hot first: what op_open and the submission always write, then what is zero until it is needed
 *  (op_open clears from `kind` on). */
struct tryst_op {
    struct submission submit;
    struct rendezvous *rdv;
    struct tryst_step *step; /**< where it was submitted; valid until it has a scope */
    uint64_t step_id;
    tryst_key *key;
    uint64_t submitted_ns;
    uint64_t number; /**< receive: of the DATA that came for it */
    uint64_t bytes;  /**< of the tensor */
    struct urgency
        urgency; /**< of this end, once it was submitted; in every queue of ours */
    tryst_tensor tensor;
    struct hash_node by_id;   /**< rdv->ids, while it has an `id` */
    _Atomic(uint32_t) refs;   /**< the user's handle, the holds together, a cancel */
    _Atomic(int32_t) outcome; /**< TRYST_IN_PROGRESS until completion is visible */
    size_t heap_index;        /**< in the deadline heap, SIZE_MAX when absent */
    int32_t origin_rank;
    int32_t origin_status;    /**< valid once `reported`, as are these: */
    int32_t final;            /**< status as reported */
    struct submission cancel; /**< once `cancel_asked` */
    struct submission raise;  /**< while `raise_to` */
    void *callback_arg;       /**< with `callback`, */
    void *alloc_arg;          /**< and with `alloc` */
    struct flow_shape shape;  /**< with `shaped` */

    uint8_t kind;    /**< enum op_kind */
    uint8_t state;   /**< enum op_state */
    uint8_t records; /**< enum op_records */
    uint8_t holds;   /**< of the progress domain: see op_hold */
    bool reported;
    bool awaits_cause; /**< receive: the peer aborted; the reason is on its way */
    bool took_data;    /**< receive: DONE answers DATA `number`, not the slices */
    bool eager;        /**< send: holds eager credit */
    bool shaped;       /**< it moves an edge of a collective, of `shape` */
    _Atomic(bool) cancel_asked;
    /** With `fail` or `take_back`: the status that the origin reported where it differs, else TRYST_OK. */
    int32_t origin_fail;
    /** INT32_MAX + 1 - the priority that it is to be raised to, while `raise` is on its way into the
     *  progress domain; else 0. */
    _Atomic(uint64_t) raise_to;
    uint32_t flags;
    int32_t priority;
    int32_t fail; /**< why it is failing, TRYST_OK while it is not */
    int32_t
        take_back; /**< send INLINE: why its DATA is asked for again, TRYST_OK: it is not */
    int32_t done_status;
    uint32_t done_posted; /**< receive: slices posted, as DONE will say */
    uint32_t done_upto;
    uint32_t ids; /**< receive: how many ids from `id` on are its own */

    struct scope *scope;
    struct entry *entry;
    struct peer *peer;
    void *live;  /**< its record on the live page, while it is pending; or NULL */
    uint64_t id; /**< receive: of its WANT; 0: it has none */
    struct stream_send sent; /**< send: its DATA, once that was packed */
    uint64_t deadline_at_ns; /**< absolute, 0 none */
    tryst_op_fn callback;
    tryst_alloc_fn alloc;

    struct list_node scope_node;      /**< scope->ops */
    struct queue_node queued;         /**< its number; in entry->sends or entry->recvs */
    struct urgent_node pending_node;  /**< peer->pending, wants_waiting or unannounced */
    struct urgent_node slot_node;     /**< peer->slots_waiting */
    struct urgent_node deferred_node; /**< peer->deferred_ops; send: peer->posted_sends */
    struct list_node done_node;       /**< rdv->completed */

    uint64_t want_id;     /**< send: the WANT that an OFFER answers, or 0 */
    struct want *want;    /**< send MATCHED or ENDING */
    struct recv_run *run; /**< receive: posted slices, NULL when there are none */
    struct op_device
        *device; /**< its tensor is in device memory (op_device.h), or NULL */
    struct flow *
        flow; /**< the flow that it moves, until it is reported (protocol/flow.h); or NULL */
    void *coll; /**< OP_COLL: its run, of the engine above; NULL */
    char *text; /**< owned, may be NULL */
};

/** The one with this number in an entry's sends or recvs, or NULL. */
static inline tryst_op *op_find(struct queue *queue, uint64_t seq)
{
    struct queue_node *found = queue_find(queue, seq);
    return found ? container_of(found, tryst_op, queued) : NULL;
}

tryst_op *op_open(struct rendezvous *rdv, enum op_kind kind);
void op_ref(tryst_op *op);
/** Nobody holds it any more. Any thread. */
void op_free(tryst_op *op);
static inline void op_unref(tryst_op *op)
{
    /* acquire and acq_rel: the last one sees every other's use before it gives the memory back.
     * Who finds a single reference has it, and only who has one can make another. */
    if (atomic_load_explicit(&op->refs, memory_order_acquire) == 1 ||
        atomic_fetch_sub_explicit(&op->refs, 1, memory_order_acq_rel) == 1)
        op_free(op);
}
/** Keep it for the progress domain, which alone may call these two: no atomic is needed. */
static inline void op_hold(tryst_op *op)
{
    op->holds++;
}
static inline void op_let_go(tryst_op *op)
{
    if (--op->holds == 0)
        op_unref(op);
}

/** Complete towards the user, once; later calls do nothing. `text` is copied. The user sees it
 *  at the end of this progress pass. */
void op_report(tryst_op *op, tryst_status status, int32_t origin_rank,
               tryst_status origin_status, const char *text);
/** The protocol is through with it (and it has been reported): leave every list, drop the
 *  protocol's reference. */
void op_end(tryst_op *op);
/** Change the state; illegal transitions assert. */
void op_state_set(tryst_op *op, enum op_state state);
const char *op_state_name(const tryst_op *op);
/** The status with which the other end ends where this end fails with `status`. The close of a group is this
 *  rank's own: its peers' groups stay open, and their operations are cancelled. */
static inline tryst_status op_peer_status(tryst_status status)
{
    return status == TRYST_E_CONTEXT ? TRYST_E_CANCELED : status;
}
/** Run the callbacks of all that were reported and make their outcome visible. */
int op_complete_all(struct rendezvous *rdv);

/** The arrow of this transfer in the trace leaves (send) or arrives (receive) at `at_ns`
 *  (trace_now_ns); for a send that is before the transport has it. Both ends compute the same id
 *  from key, number and step. */
void op_trace_flow(const tryst_op *op, uint64_t at_ns);
/** In the trace: slice `index` leaves, or, of a flow that is received, has arrived. */
void op_trace_slice(const tryst_op *op, uint32_t index);
/** Whether this thread is inside a callback of an operation; of this one. */
bool op_callback_runs(void);
bool op_callback_is_of(const tryst_op *op);

#endif
