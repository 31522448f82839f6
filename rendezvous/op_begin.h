/* SPDX-License-Identifier: Apache-2.0 */
/** @file op_begin.h
 *  The start of an operation in the progress domain: time, deadline, urgency, peer and
 *  entry.
 *
 *  Idea: sends, receives and collectives start in one way, and flows are refused for the
 *  same causes (op_refusal), so no kind of operation misses one.
 *
 *  The path of small tensors is inline; the rest is in op_begin.c.
 */
#ifndef TRYST_RENDEZVOUS_OP_BEGIN_H
#define TRYST_RENDEZVOUS_OP_BEGIN_H

#include "rendezvous/match/table.h"
#include "rendezvous/op/deadline.h"
#include "rendezvous/op/engine.h"
#include "rendezvous/peer/group.h"
#include "rendezvous/peer/peer.h"

/** Report and end an operation that cannot start (op_refusal); returns false. */
bool op_begin_refuse(tryst_op *op);
/** Report and end an operation that found no memory for its peer, entry or deadline, and
 *  abort its step; returns false. */
bool op_begin_fail_nomem(tryst_op *op);

/** Return the time of submission. The coarse clock is exact enough for warnings of waits.
 *  It is read once for all submissions between two passes: reading it for each took a
 *  tenth of the time of an 8-byte message. */
static inline uint64_t op_submission_ns(struct rendezvous *rdv, bool exact)
{
    enum { STAMPS = 32 }; /* read again after this many, in case no pass runs */
    if (exact)
        return rendezvous_now(rdv);
    if (rdv->times.stamps_left-- == 0) {
        rdv->times.stamp_ns = clock_coarse_ns(rdv->clock);
        rdv->times.stamps_left = STAMPS - 1;
    }
    return rdv->times.stamp_ns;
}

/** Make the relative deadline an absolute time. */
static inline void op_deadline_begin(tryst_op *op, uint64_t now_ns)
{
    op->deadline_at_ns = op->deadline_at_ns > UINT64_MAX - now_ns
                             ? UINT64_MAX
                             : op->deadline_at_ns + now_ns;
}

/** Set the urgency. Without a mask (TRYST_SCHED=fifo) only the order of submission
 *  counts. */
static inline void op_urgency_set(tryst_op *op, uint64_t tie)
{
    const struct rendezvous *rdv = op->rdv;
    enum urgency_class kind =
        op->flags & TRYST_OP_BACKGROUND ? URGENCY_BACKGROUND : URGENCY_TRAINING;
    uint64_t mask = rdv->set.urgency_mask;
    op->urgency =
        (struct urgency){.sort_key = urgency_sort_key(kind, op->priority) & mask,
                         .step = op->step_id & mask,
                         .number = mask && tie ? tie : rdv->counters.submitted};
}

/** Start a submitted operation: put it into its step, set its time, its deadline and its
 *  urgency, and give a send or a receive its peer and the entry of its key. Of equally
 *  urgent operations of a step the one with the lower `tie` goes first (0: in the order
 *  of submission). False: it has ended instead (op_refusal). Also where there was no
 *  memory; such an operation takes no number, and all later ones of its key would meet
 *  wrong ones, so the step is aborted on all ranks. */
static inline bool op_begin(tryst_op *op, struct scope *scope, uint64_t tie)
{
    struct rendezvous *rdv = op->rdv;
    bool has_peer = op->kind <= OP_RECV;
    op_scope_enter(op, scope, op_submission_ns(rdv, rdv->trace || op->deadline_at_ns));
    if (op->deadline_at_ns)
        op_deadline_begin(op, op->submitted_ns);
    if (has_peer)
        op->peer = peer_get(rdv->group,
                            op->kind == OP_SEND ? op->key->dst_rank : op->key->src_rank);
    rdv->counters.submitted++;
    op_urgency_set(op, tie);
    bool open = scope->state != SCOPE_CLOSING && scope->abort_status == TRYST_OK;
    if (!open || (op->peer && op->peer->life >= PEER_GIVING_UP))
        return op_begin_refuse(op);
    if (op->peer)
        op_entry_set(op, entry_get(scope, op->key));
    bool bound = op->entry || !has_peer;
    if (!bound || (op->deadline_at_ns && deadline_add(rdv, op) != TRYST_OK))
        return op_begin_fail_nomem(op);
    return true;
}

#endif
