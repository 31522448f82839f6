/* SPDX-License-Identifier: Apache-2.0 */
/** @file flow.h
 *  A flow: a keyed transfer with slices that become ready one by one. A tree edge of a
 *  collective is two flows, one up and one down.
 *
 *  On the wire a flow is a transfer like all others: WANT, bulk, DONE, and OFFER, which
 *  carries the ready count, cumulatively, and repeats. A flow of at most TRYST_EAGER_MAX
 *  has one slice and travels as DATA.
 *
 *      sender                              receiver
 *        flow_ready(n) ─── OFFER{n} ─────▶   slices_announced ─▶ place(i)
 *                                                   (TRYST_AGAIN: after flow_place_again)
 *        slice i starts ── bulk id + i ──▶   arrived(i)
 *        sent(i): the transport has its bytes
 *        ended                               ended
 *
 *  Where a rank can read the peer's memory (flow_may_borrow), it may *borrow* a slice:
 *  `place` gives no memory, `arrived` reports that the slice can be read at the sender
 *  (flow_read), and flow_return gives it back. The slice holds its
 *  slot, its window and the sender's memory until then, so a receiver borrows only what
 *  it can use without waiting for another rank.
 *
 *  Invariants: a slice starts only when it is ready and posted. A receiver with `place`
 *  posts only slices that the sender has announced, unless the flow is `ahead`. `ended`
 *  is the last call of a flow, made exactly once, when no transport reads or writes the
 *  flow's memory any more.
 *
 *  All in the progress domain. The hooks run inside walks of the protocol, so a hook only
 *  marks work: it must not call a function of this header or end an operation. The owner
 *  works in coll_calls.run.
 */
#ifndef TRYST_RENDEZVOUS_PROTOCOL_FLOW_H
#define TRYST_RENDEZVOUS_PROTOCOL_FLOW_H

#include "rendezvous/match/flow_shape.h"
#include "rendezvous/op/op.h"
#include "tryst/types.h"

/** The most bytes of one flow_read. */
#define FLOW_PIECE_BYTES (128u << 10)
/** Use of `bytes` bytes at `data`, which are valid during the call. */
typedef void (*flow_use)(void *arg, const void *data, size_t bytes);

struct flow;
struct rendezvous;
struct scope;
struct tryst_mem;

/** The hooks of a flow. A slot may be NULL except `ended`: `place` describes its own
 *  NULL; other NULL slots are not called. */
struct flow_ops {
    /** Receive: provide memory for slice `index`. Called in rising order, once for each
     *  slice, and only for index < flow->slices_announced, unless the flow is posted
     *  ahead. TRYST_OK: the transport may write the memory until `arrived` or `ended`;
     *  *data_p NULL, where flow_may_borrow: the slice is borrowed. TRYST_AGAIN: the next
     *  call for this slice follows flow_place_again, a later OFFER or an arrival. NULL:
     *  slice i is at tensor.data + i * slice_bytes, and slices may be posted ahead of the
     *  OFFER (in at most half of the peer's slots). mem_p: the registration that covers
     *  the slice, or NULL (set before the call). */
    tryst_status (*place)(struct flow *flow, uint32_t index, void **data_p,
                          struct tryst_mem **mem_p);
    /** Receive: an OFFER has raised flow->slices_announced. */
    void (*slices_announced)(struct flow *flow);
    /** Receive: the bytes of slice `index` are in its memory; of a borrowed slice: they
     *  can be read by flow_read, until flow_return or `ended`. In any order; of a
     *  borrowed slice again, after flow_read has answered TRYST_AGAIN. */
    void (*arrived)(struct flow *flow, uint32_t index);
    /** Receive, where the flow came as DATA: add or keep the payload, which is valid
     *  during the call. NULL: the payload is copied to tensor.data. `arrived` is not
     *  called for DATA. */
    void (*take)(struct flow *flow, const void *payload, size_t bytes);
    /** Send: the transport no longer reads slice `index`. In order. Where the flow leaves
     *  as DATA, the payload has been packed into a frame: nothing reads tensor.data from
     *  now on, whatever the peer answers, and `ended` follows the answer. */
    void (*sent)(struct flow *flow, uint32_t index);
    /** Return the cause with which the flow's owner is failing; status TRYST_OK: the
     *  owner is not failing. NULL: the owner never fails. The close of the step fails the
     *  flow with this cause, so a peer receives the cause that the owner reports. */
    struct cause (*failing)(const struct flow *flow);
    /** The last call: nothing reads or writes the flow's memory any more, and flow->op is
     *  NULL. The status is TRYST_OK if nothing failed. `text` (NULL: none) is valid
     *  during the call. After flow_fail only this hook is called. */
    void (*ended)(struct flow *flow, struct cause cause, const char *text);
};

/** Embedded in its owner's record, and valid until `ended`. */
struct flow {
    const struct flow_ops *ops;
    tryst_op *op; /**< set by the protocol; NULL before the start and after the end */
    /** The plan's slice size, 4 KiB at least: a WANT with another size is refused. */
    uint32_t slice_bytes;
    uint32_t slices; /**< set by flow_send and flow_recv; 1 where there are no bytes */
    uint32_t ready; /**< send: slices [0, ready) may start; may be set before flow_send */
    /** Receive: slices that the sender has announced as ready. */
    uint32_t slices_announced;
    /** Receive: where flow_may_borrow, slices are posted ahead of the OFFER though there
     *  is `place`. Set before the start. */
    bool ahead;
    struct flow_shape shape; /**< set before the start: both ends must have the same */
    uint64_t number;         /**< within its key; set by flow_send and flow_recv */
    /** Set by the protocol: the cause of a failing receive that has dropped bytes; status
     *  TRYST_OK: no bytes were dropped. */
    struct cause late;
};

struct flow_params {
    struct scope *scope;
    uint64_t step_id;
    tryst_key *key; /**< a reference is taken */
    struct urgency urgency;
    const tryst_tensor *tensor; /**< host memory; copied */
    /** NULL: the flow takes the next number of its key. Else its number, above those of
     *  all earlier flows of the key here; all flows of the key are numbered so, and
     *  travel as DATA. Numbers may be skipped: what comes for a skipped one is dropped,
     *  and a receive that waits for it ends when it fails or when the step closes. */
    const uint64_t *number;
};

/** Start a flow to key->dst_rank, or from key->src_rank. Its number is taken in this
 *  call, so the flows of one key meet in the order of these calls at both ends, also
 *  flows that travel as DATA and are not ready yet. Returns TRYST_OK: `ended` follows,
 *  within this call for a flow that cannot start (its peer is gone, the step was aborted
 *  or is closed). TRYST_E_NOMEM: nothing happened. TRYST_E_UNSUPPORTED: device memory, or
 *  more than 2^31 slices; nothing happened. */
tryst_status flow_send(struct rendezvous *rdv, struct flow *flow,
                       const struct flow_params *params);
tryst_status flow_recv(struct rendezvous *rdv, struct flow *flow,
                       const struct flow_params *params);
/** Send: slices [0, ready) may start; cumulative. Does nothing after `ended`. */
void flow_ready(struct flow *flow, uint32_t ready);
/** Receive: call `place` again, and post the slices that get memory. Does nothing after
 *  `ended`. */
void flow_place_again(struct flow *flow);
/** Receive, from `place` on: true if slices of the flow may be borrowed. The sender's
 *  bytes are then read by this rank alone, so once a slice has arrived here the sender's
 *  transport reads it no more. */
bool flow_may_borrow(const struct flow *flow);
/** Use `bytes` bytes (at most FLOW_PIECE_BYTES) from byte `at` on of the borrowed slice
 *  `index`: `use` is called once, inside the call. What was read counts only after
 *  flow_return. TRYST_OK. TRYST_AGAIN: the bytes cannot be read now; `arrived` is called
 *  again, with equal bytes, or `ended`. */
tryst_status flow_read(struct flow *flow, uint32_t index, uint64_t at, uint64_t bytes,
                       flow_use use, void *arg);
/** Return the borrowed slice `index`. TRYST_OK: what was read of it counts; `place` may
 *  be called, and `ended`, within this call. TRYST_AGAIN: it does not count; `ended`
 *  follows. */
tryst_status flow_return(struct flow *flow, uint32_t index);
/** Raise the flow, at either end, to this priority in the training class. Does nothing
 *  after `ended`. */
void flow_raise(struct flow *flow, int32_t priority);
/** End the flow with this cause, at the peer too: `ended` follows, within this call, when
 *  the slices in flight have left, or with the peer's answer. Does nothing after `ended`,
 *  where the flow fails already, and where a cancel or a deadline comes too late. */
void flow_fail(struct flow *flow, struct cause cause, const char *text);

/** Send the failure of a flow that has sent its DATA and has ended, where its owner fails
 *  later: with the same key, number and shape. At the peer the failure ends the flow's
 *  receive, if that still waits, or goes to coll_calls.late_failure. Without memory, or
 *  where the peer learns of the failure otherwise, nothing is sent. */
void flow_fail_late(struct rendezvous *rdv, const struct flow *flow,
                    const struct flow_params *params, struct cause cause,
                    const char *text);
/** Count the uses of something by a key that no transfer has: return its next number in
 *  `*number_p`. TRYST_OK or TRYST_E_NOMEM. */
tryst_status flow_count(struct scope *scope, tryst_key *key, uint64_t *number_p);

/** The evidence of a flow's other end at this rank. The strongest evidence that the peer
 *  has not submitted its part comes first: a fabric that still starts may hide what the
 *  peer has sent. */
enum flow_sight {
    FLOW_SILENT,       /**< connected, and no record of the flow has come */
    FLOW_STARTS_HERE,  /**< this rank's fabric to the peer still starts */
    FLOW_STARTS_THERE, /**< the peer's fabric still starts */
    FLOW_UNCONNECTED,
    FLOW_MET /**< the peer has submitted its part, or the flow has ended */
};
enum flow_sight flow_sight(const struct flow *flow);

/** Call `ended`: `op`, which moves a flow, has been reported. */
void flow_op_ended(tryst_op *op);

#endif
