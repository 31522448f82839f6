/* SPDX-License-Identifier: Apache-2.0 */
/** @file op.h
 *  One asynchronous operation, and its states.
 *
 *  An operation has two lives. For the *user* an operation is in progress and then
 *  complete, exactly once (op_report). For the *protocol* an operation lives until its
 *  last record has been packed and, after a failure, until the peer has consumed its
 *  sequence number (op_end). Each life is a hold. All holds together are one reference,
 *  and the user's handle is another.
 *
 *  The transitions below are those of the table in op.c. A receive:
 *
 *                  ┌──── OFFER of the shape ────┐
 *                  ▼                            │
 *   SUBMITTED ──▶ POSTED ──── WANT queued ──▶ WANTED ── all slices ──────▶ TAKEN
 *                  │ ▲                          │  └─── CANCELED, CLOSED ─▶ ENDING
 *           failed │ └───── OFFER, tick ─────┐  │ DEFERRED
 *                  ▼                         │  ▼
 *                 VOID ◀────── failed ────── DEFERRED
 *
 *   POSTED, WANTED, DEFERRED ── DATA that failed or is copied to a device ─▶ TAKEN
 *   POSTED, WANTED, DEFERRED ── failed DATA, slices posted ────────────────▶ ENDING
 *   ENDING ── slices withdrawn, DONE queued ───────────────────────────────▶ TAKEN
 *   every state ───────────────────────────────────────────────────────────▶ ENDED
 *
 *  A receive ends when its DATA is in place, when the last record of TAKEN or VOID was
 *  packed, when no slice of ENDING is posted, when VOID is answered, when its start was
 *  refused, or when the peer is gone. A cancel in WANTED sends CANCEL and keeps the
 *  state: the answer (CANCELED, or the bytes) decides. VOID has been reported; the
 *  operation stays until the producer has consumed its number.
 *
 *  A send:
 *
 *   SUBMITTED ── held; neither want nor credit; want without a size ───────▶ POSTED
 *   SUBMITTED, POSTED ── credit; want, small or refused ───────────────────▶ INLINE
 *   SUBMITTED, POSTED ── want, large ──────────────────────────────────────▶ MATCHED
 *   POSTED ── failed ──────────────────────────────────────────────────────▶ VOID
 *   INLINE ── the consumer had no memory to keep the DATA ─────────────────▶ VOID
 *   VOID ── want, or credit for the failure of a flow ─────────────────────▶ INLINE
 *   MATCHED ── failed; canceled before the last slice ─────────────────────▶ ENDING
 *   every state ───────────────────────────────────────────────────────────▶ ENDED
 *
 *  A send ends when its DATA is acknowledged, when all its slices are, when no slice of
 *  ENDING is in the transport, when its receive was given up or the step was closed, when
 *  its start was refused, or when the peer is gone. A send leaves as DATA with a status
 *  and no bytes if it failed before its DATA was packed, is dead, or does not fit its
 *  WANT. VOID has been reported; DATA with the status answers the WANT of its number.
 *
 *  Other operations go from SUBMITTED to ENDED.
 */
#ifndef TRYST_RENDEZVOUS_OP_OP_H
#define TRYST_RENDEZVOUS_OP_OP_H

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

/** OP_COLL belongs to the engine of collectives above (coll_calls.h) and has no peer. */
enum op_kind { OP_SEND, OP_RECV, OP_STEP_CLOSE, OP_COLL, OP_KINDS };

enum op_state {
    OP_SUBMITTED,
    OP_POSTED,   /**< in the table; its counterpart is not known */
    OP_WANTED,   /**< receive: announced by a WANT that is not answered yet */
    OP_DEFERRED, /**< receive: the producer had no room; an OFFER will come */
    OP_INLINE,   /**< send: DATA queued or sent, not acknowledged */
    OP_MATCHED,  /**< send: its slices are scheduled or in flight */
    OP_ENDING,   /**< failed; the transport still uses the buffer */
    OP_TAKEN,    /**< receive: has its bytes or has failed; its DONE is queued */
    OP_VOID,     /**< reported as failed; its number is not consumed yet */
    OP_ENDED,
    OP_STATES
};

/** The records that an operation has queued for its peer. Lower bits leave first. */
enum op_records {
    QUEUED_WANT = 1u,
    QUEUED_DATA = 2u,
    QUEUED_OFFER = 4u,
    QUEUED_CANCEL = 8u,
    QUEUED_RAISE = 16u,
    QUEUED_DONE = 32u
};

/** How streams wait for an operation (stream_wait.c). A collective on device memory is
 *  taken over by the thread of the first wait (takeover.h); all other operations open a
 *  gate.
 *
 *      UNBEGUN ──▶ OPEN ◀──▶ BUSY ◀──▶ TAKEN
 *         │         │         │          │       by a wait that finds no other way, or at
 *         └─────────┴─────────┴──────────┴─▶ GATE         the end of the operation
 */
enum op_streams {
    OP_STREAMS_GATE,    /**< by a gate; once this, always this */
    OP_STREAMS_UNBEGUN, /**< a collective on device memory; its copies have not begun */
    OP_STREAMS_OPEN,    /**< its copies have begun */
    OP_STREAMS_BUSY,    /**< a thread uses its run, which stays meanwhile */
    OP_STREAMS_TAKEN    /**< it is taken over; further streams follow */
};

/** Work that any thread hands to the progress domain. */
struct submission {
    struct mpsc_node node;
    void (*run)(struct rendezvous *rdv, struct submission *submission);
};

/** The cause of a failure: the status that both ends report, the rank where the failure
 *  began (-1: this one), and the status reported there. */
struct cause {
    tryst_status status;
    int32_t origin_rank;
    tryst_status origin_status;
};

/** The calls from operations up to the protocol. */
struct op_events {
    /** Cancel or fail `op`, for a deadline, an abort, the user or a flow's owner. */
    void (*fail)(tryst_op *op, struct cause cause, const char *text);
    /** Raise the urgency of `op` to `sort_key` (core/memory/urgency.h) in all its queues.
     *  The caller has set the flags and the priority of `op`. */
    void (*raise)(tryst_op *op, uint64_t sort_key);
    /** Free op->device: no reference to `op` is left. Any thread. */
    void (*device_close)(tryst_op *op);
    /** Return the rank of the other end; -1: there is none. */
    int32_t (*peer_rank)(const tryst_op *op);
    /** End the flow that `op` moves. The status of `op` is final. */
    void (*flow_ended)(tryst_op *op);
};

/** The order is that of cache lines (64 bytes), since the operations that are outstanding
 *  do not fit the first cache: what most completions touch is in the five lines from
 *  `rdv` on. All fields from `kind` on are zero until they are needed; op_open clears
 *  them. */
struct tryst_op {
    struct submission submit;
    struct tryst_step *step; /**< the submitter's handle; valid until `scope` is set */
    uint64_t step_id;
    uint64_t submitted_ns;
    /** The urgency of this end, set at submission: orders the operation in every queue of
     *  this rank. */
    struct urgency urgency;

    tryst_tensor tensor;
    void *callback_arg; /**< argument of `callback` */

    struct hash_node by_id;   /**< in rdv->ids.table, while `id` is not 0 */
    struct submission cancel; /**< valid once `cancel_requested` */
    struct submission raise;  /**< queued while `raise_to` is not 0 */
    struct flow_shape shape;  /**< valid with `shaped` */

    struct rendezvous *rdv;
    tryst_key *key;
    uint64_t bytes;         /**< size of the tensor */
    uint64_t number;        /**< receive: the number of the DATA that came for it */
    size_t heap_index;      /**< index in the deadline heap; SIZE_MAX: not in the heap */
    _Atomic(uint32_t) refs; /**< user's handle, all holds together, queued submissions */
    _Atomic(int32_t) outcome; /**< TRYST_IN_PROGRESS until the completion is visible */
    int32_t origin_rank;
    int32_t origin_status; /**< the status at the origin; valid once `reported` */
    int32_t final;         /**< the reported status; valid once `reported` */
    uint32_t ids; /**< receive: number of consecutive ids; valid while `id` is not 0 */

    uint8_t kind;    /**< enum op_kind */
    uint8_t state;   /**< enum op_state */
    uint8_t records; /**< enum op_records */
    uint8_t holds;   /**< holds of the progress domain; see op_hold */
    bool reported;
    bool took_data; /**< receive: DONE answers DATA `number`, not slices */
    bool eager;     /**< send: holds eager credit */
    bool shaped;    /**< moves an edge of a collective, described by `shape` */
    bool raised;    /**< submitted without an urgency; a raise has set `priority` */
    _Atomic(bool) cancel_requested;
    uint16_t title_bytes; /**< `text` begins with the title of the operation (op_title) */
    uint32_t flags;
    int32_t priority;
    int32_t fail; /**< the status with which the operation is failing; TRYST_OK: none */
    /** Send in INLINE: the status of the CANCEL that requests the consumer to drop the
     *  DATA; TRYST_OK: none. */
    int32_t take_back;
    uint32_t done_upto;
    struct scope *scope;
    struct entry *entry;
    struct peer *peer;
    /** The operation's record on the live page; valid until the report. NULL: none. */
    void *live;

    uint64_t id; /**< receive: the id of its WANT, the first of `ids`; 0: none */
    /** Send: its place in the stream once its DATA was packed. */
    struct stream_send sent;
    tryst_op_fn callback;
    struct list_node scope_node; /**< in scope->ops or scope->warned */
    char *text;                  /**< the text of its failure, owned; may be NULL */

    /** Holds the sequence number; in entry->sends or entry->recvs. */
    struct queue_node queued;
    struct list_node done_node; /**< in rdv->completed */
    /** The state of a tensor in device memory (op_device.h), or NULL. */
    struct op_device *device;
    /** The flow that the operation moves until it is reported (protocol/flow.h), or
     *  NULL. */
    struct flow *flow;
    struct recv_run *run; /**< receive: its posted slices; NULL: none */

    /** In channel->out.pending, out.wants_waiting or in.unannounced
     *  (protocol/channel.h). */
    struct urgent_node pending_node;
    /** Receive: in channel->out.deferred_ops. Send: in out.posted_sends or
     *  out.blocked_sends. */
    struct urgent_node deferred_node;
    struct want *want; /**< send in MATCHED or ENDING: the WANT that it met */
    union {
        uint64_t want_id; /**< send: the WANT that an OFFER answers; 0: none */
        /** OP_COLL, OP_STEP_CLOSE: not 0: coll_calls.used is called. For the layer
         *  above. */
        uint64_t recorded;
    };
    tryst_alloc_fn alloc;
    void *alloc_arg; /**< argument of `alloc` */

    union {
        struct urgent_node slot_node;  /**< receive: in channel->in.slots_waiting */
        struct list_node waiting_node; /**< send: in channel->out.waiting_sends */
    };
    uint64_t deadline_at_ns; /**< absolute time; 0: no deadline */
    void *coll; /**< OP_COLL: its run in the engine of collectives, else NULL */
    /** INT32_MAX + 1 - the new priority, while `raise` is on its way into the progress
     *  domain; else 0. */
    _Atomic(uint64_t) raise_to;
    /** The status at the origin of the failure in `fail` or `take_back`; TRYST_OK: the
     *  same status. */
    int32_t origin_fail;
    int32_t done_status;
    uint32_t done_posted;      /**< receive: slices posted, for the next DONE */
    _Atomic(uint32_t) streams; /**< OP_COLL: enum op_streams */
};

/** Return the operation with this number in an entry's sends or recvs, or NULL. */
static inline tryst_op *op_find(struct queue *queue, uint64_t seq)
{
    struct queue_node *found = queue_find(queue, seq);
    return found ? container_of(found, tryst_op, queued) : NULL;
}

/** Open an operation with two references (the user's handle, and the holds together) and
 *  the protocol's hold. NULL: no memory. */
tryst_op *op_open(struct rendezvous *rdv, enum op_kind kind);
/** Take a reference. Any thread. */
void op_ref(tryst_op *op);
/** Free `op`: no reference is left. Any thread. */
void op_free(tryst_op *op);
static inline void op_unref(tryst_op *op)
{
    /* acquire and acq_rel: the thread that drops the last reference sees all writes of
     * the others before the memory is reused. A thread that reads a count of 1 holds the
     * only reference, and only a holder can add one. */
    if (atomic_load_explicit(&op->refs, memory_order_acquire) == 1 ||
        atomic_fetch_sub_explicit(&op->refs, 1, memory_order_acq_rel) == 1)
        op_free(op);
}
/** Name the operation by its key, and take a reference to the key. */
static inline void op_key_set(tryst_op *op, tryst_key *key)
{
    op->key = prepared_ref(key);
}
/** Set the tensor, of `bytes` bytes; NULL: none. */
static inline void op_tensor_set(tryst_op *op, const tryst_tensor *tensor, uint64_t bytes)
{
    op->tensor = tensor ? *tensor : (tryst_tensor){0};
    op->bytes = bytes;
}
/** Set what the user requests of an operation, with a relative deadline. */
static inline void op_params_set(tryst_op *op, const tryst_op_params *params)
{
    op->flags = params->flags;
    op->priority = params->flags & TRYST_OP_PRIORITY ? params->priority : 0;
    op->deadline_at_ns = params->deadline_ns;
    op->callback = params->callback;
    op->callback_arg = params->arg;
}
/** Give the operation this priority in this class. */
static inline void op_priority_set(tryst_op *op, enum urgency_class kind,
                                   int32_t priority)
{
    uint32_t others = op->flags & ~(TRYST_OP_PRIORITY | TRYST_OP_BACKGROUND);
    op->flags = others | TRYST_OP_PRIORITY |
                (kind == URGENCY_BACKGROUND ? TRYST_OP_BACKGROUND : 0);
    op->priority = priority;
}
/** Bind the operation to the entry of its key; NULL: none. */
static inline void op_entry_set(tryst_op *op, struct entry *entry)
{
    op->entry = entry;
}
/** Set the text of the failure, a copy, unless there is one. Without memory there is
 *  none. */
void op_text_set(tryst_op *op, const char *text);
/** Drop the text of the failure. */
void op_text_drop(tryst_op *op);
/** Add or drop a hold of the progress domain. No atomic is needed: only the progress
 *  domain calls these two functions. */
static inline void op_hold(tryst_op *op)
{
    op->holds++;
}
static inline void op_unhold(tryst_op *op)
{
    if (--op->holds == 0)
        op_unref(op);
}

/** Let `op` change from `from` to `to`; false: it is not in `from`. Acquire and release:
 *  what the last user of BUSY has written comes before. Any thread. */
static inline bool op_streams_change(tryst_op *op, enum op_streams from,
                                     enum op_streams to)
{
    uint32_t expected = from;
    return atomic_compare_exchange_strong_explicit(
        &op->streams, &expected, to, memory_order_acq_rel, memory_order_acquire);
}

/** Complete `op` towards the user, once; later calls do nothing. `text` (NULL: none) is
 *  copied unless `op` has a text. The completion becomes visible at the end of this
 *  pass. With TRYST_E_ABORTED the step's cause replaces the origin, if it is known. */
void op_report(tryst_op *op, tryst_status status, int32_t origin_rank,
               tryst_status origin_status, const char *text);
/** End the protocol's life of `op`, which has been reported: leave every list and drop
 *  the protocol's hold. */
void op_end(tryst_op *op);
/** For each kind of operation and each state, the states that may follow, as bits. */
extern const uint16_t op_state_next[OP_KINDS][OP_STATES];
/** Change the state; a transition that is not drawn above asserts. */
void op_state_set(tryst_op *op, enum op_state state);
/** Return the name of the state, for logs. */
const char *op_state_name(const tryst_op *op);
/** The longest title of an operation, with the longest key. */
enum { OP_TITLE_BYTES = TRYST_KEY_MAX + 96 };
/** Write the title of an operation: "receive of KEY from rank 1 in step 7", "collective
 *  NAME in step 7", "close of step 7". Any thread. */
void op_title(const tryst_op *op, char text[static OP_TITLE_BYTES]);
/** Return the text of the failure without the title; NULL: none. */
static inline const char *op_reason(const tryst_op *op)
{
    return op->text ? op->text + op->title_bytes : NULL;
}
/** Set this thread's tryst_last_error to the failure of `op`, which is complete with
 *  `status`, and return `status`. Any thread. */
__attribute__((cold)) tryst_status op_refuse_failed(const tryst_op *op,
                                                    tryst_status status);
/** Return the status with which the other end ends where this end fails with `status`.
 *  The close of a group concerns this rank alone: the peers' groups stay open, and their
 *  operations end because this rank has left. */
static inline tryst_status op_peer_status(tryst_status status)
{
    return status == TRYST_E_CONTEXT ? TRYST_E_LEFT : status;
}
/** Run the callbacks of all reported operations and make their outcomes visible. Returns
 *  their number. */
int op_complete_all(struct rendezvous *rdv);

/** Draw one end of this transfer's arrow in the trace, at `at_ns` (trace_now_ns): a
 *  send's end leaves, a receive's arrives. A send draws before its transport has the
 *  bytes. Both ends compute the same id from key, number and step. */
void op_trace_flow(const tryst_op *op, uint64_t at_ns);
/** Trace that slice `index` leaves or, for the receiver of a flow, has arrived. */
void op_trace_slice(const tryst_op *op, uint32_t index);
/** Report a use of the result of `op`, OP_COLL or OP_STEP_CLOSE, to the layer above,
 *  which may record the first one. `by_callback`: before the operation's own callback.
 *  Any thread. */
void op_used(const tryst_op *op, bool by_callback);
/** Return tryst_op_test of an operation with the outcome TRYST_IN_PROGRESS. */
tryst_status op_pending_outcome(const tryst_op *op);
/** Return tryst_op_test of `op`, which is not NULL. */
static inline tryst_status op_outcome(const tryst_op *op)
{
    /* acquire: pairs with the store in op_complete_all. */
    tryst_status status = atomic_load_explicit(&op->outcome, memory_order_acquire);
    if (status == TRYST_IN_PROGRESS)
        return op_pending_outcome(op);
    if (__builtin_expect(op->kind >= OP_STEP_CLOSE, 0))
        op_used(op, false);
    return status;
}

/** True if this thread is in the callback of an operation. */
bool op_callback_runs(void);
/** Return `recorded` of the operation that calls back in this thread; 0: none. */
uint64_t op_callback_recorded(void);

#endif
