/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The start of an operation: time, deadline, urgency, peer and entry.
 *
 * Idea: sends, receives and collectives start in one way, and flows are refused for the
 * same causes (op_refusal), so no kind of operation misses one.
 */
#include "op_begin.h"

#include "rendezvous/match/table.h"
#include "rendezvous/op/deadline.h"
#include "rendezvous/peer/abort.h"
#include "rendezvous/peer/group.h"
#include "rendezvous/peer/peer.h"

/* Return the time of submission. The coarse clock is exact enough for warnings of waits.
 * It is read once for all submissions between two passes: reading it for each took a
 * tenth of the time of an 8-byte message. */
static uint64_t submitted_ns(struct rendezvous *rdv, bool exact)
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

/* Set the time of submission, and make the deadline an absolute time. */
static void times_set(tryst_op *op)
{
    op->submitted_ns = submitted_ns(op->rdv, op->rdv->trace || op->deadline_at_ns);
    if (op->deadline_at_ns)
        op->deadline_at_ns = op->deadline_at_ns > UINT64_MAX - op->submitted_ns
                                 ? UINT64_MAX
                                 : op->deadline_at_ns + op->submitted_ns;
}

/* Set the urgency. Without a mask (TRYST_SCHED=fifo) only the order of submission
 * counts. */
static void urgency_set(tryst_op *op, uint64_t tie)
{
    const struct rendezvous *rdv = op->rdv;
    enum urgency_class kind =
        op->flags & TRYST_OP_BACKGROUND ? URGENCY_BACKGROUND : URGENCY_TRAINING;
    uint64_t mask = rdv->set.urgency_mask;
    op->urgency = (struct urgency){.rank = urgency_rank(kind, op->priority) & mask,
                                   .step = op->step_id & mask,
                                   .number = mask && tie ? tie : rdv->counters.submitted};
}

static bool has_peer(const tryst_op *op)
{
    return op->kind <= OP_RECV;
}

/* Bind the operation to its entry and arm its deadline. False: there was no memory for
 * peer, entry or deadline, and the operation has ended. */
static bool op_bind(tryst_op *op)
{
    struct rendezvous *rdv = op->rdv;
    int32_t rank = rdv->group->roster.rank;
    uint64_t step_id = op->step_id;
    if (op->peer)
        op->entry = entry_get(op->scope, op->key);
    if ((op->entry || !has_peer(op)) &&
        (!op->deadline_at_ns || deadline_add(rdv, op) == TRYST_OK))
        return true;
    op_report(op, TRYST_E_NOMEM, rank, TRYST_E_NOMEM,
              "cannot queue the operation: out of memory for its key, peer or deadline");
    op_end(op);
    rendezvous_abort(
        rdv, step_id, TRYST_E_NOMEM, rank, clock_wall_ns(),
        "cannot queue an operation: out of memory for its key, peer or deadline", NULL);
    return false;
}

bool op_begin(tryst_op *op, struct scope *scope, uint64_t tie)
{
    struct rendezvous *rdv = op->rdv;
    const char *text;
    op->scope = scope;
    times_set(op);
    if (has_peer(op))
        op->peer = peer_get(rdv->group,
                            op->kind == OP_SEND ? op->key->dst_rank : op->key->src_rank);
    list_push_back(&scope->ops, &op->scope_node);
    rdv->counters.submitted++;
    urgency_set(op, tie);
    struct cause cause = op_refusal(scope, op->peer, &text);
    if (__builtin_expect(cause.status == TRYST_OK, 1))
        return op_bind(op);
    op_report(op, cause.status,
              cause.origin_rank < 0 ? rdv->group->roster.rank : cause.origin_rank,
              cause.origin_status, text);
    op_end(op);
    return false;
}
