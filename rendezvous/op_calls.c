/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The users' calls on an operation: test, cancel, reprioritize, read, release. Any
 * thread.
 */
#include "core/os/fork.h"
#include "core/text/refuse.h"
#include "rendezvous/op/engine.h"
#include "rendezvous/progress/submission.h"
#include "tryst/sized.h"

/* True in a forked child: the operation is the parent's, and only outcomes stored
 * before the fork can be read. */
static bool is_forked(const tryst_op *op)
{
    return op->rdv->fork_generation != fork_generation_now();
}

/* True if the operation is not complete, or will never be in this process. */
static bool is_pending(tryst_status status)
{
    return status == TRYST_IN_PROGRESS || status == TRYST_E_FORKED;
}

tryst_status tryst_op_test(const tryst_op *op)
{
    if (!op)
        return refuse_null("test an operation", "op");
    tryst_status status = op_outcome(op);
    return __builtin_expect(status < 100, 1) ? status : op_refuse_failed(op, status);
}

void tryst_op_release(tryst_op *op)
{
    if (op && !is_forked(op))
        op_unref(op);
}

static void op_cancel_run(struct rendezvous *rdv, struct submission *submission)
{
    tryst_op *op = container_of(submission, tryst_op, cancel);
    (void)rdv;
    if (!op->reported && op->kind != OP_STEP_CLOSE)
        op_fail(op, TRYST_E_CANCELED, "cancelled by its owner");
    op_unref(op);
}

tryst_status tryst_op_cancel(tryst_op *op)
{
    if (!op)
        return refuse_null("cancel", "op");
    tryst_status usable = rendezvous_usable(op->rdv);
    if (usable != TRYST_OK)
        return refuse_unusable("cancel", usable);
    /* relaxed: only decides which thread submits; the submission carries the rest. */
    if (atomic_exchange_explicit(&op->cancel_requested, true, memory_order_relaxed))
        return TRYST_OK;
    op_ref(op);
    op->cancel.run = op_cancel_run;
    rendezvous_submit(op->rdv, &op->cancel);
    return TRYST_OK;
}

/* Raise the operation to this priority in the training class, unless it is complete, is
 * the close of a step, or is as urgent already. */
static void op_raise(tryst_op *op, int32_t priority)
{
    uint64_t sort_key =
        urgency_sort_key(URGENCY_TRAINING, priority) & op->rdv->set.urgency_mask;
    bool is_set = op->flags & TRYST_OP_PRIORITY && !(op->flags & TRYST_OP_BACKGROUND);
    if (op->reported || op->kind == OP_STEP_CLOSE || (is_set && priority >= op->priority))
        return;
    op->raised |= !(op->flags & (TRYST_OP_PRIORITY | TRYST_OP_BACKGROUND));
    op_priority_set(op, URGENCY_TRAINING, priority);
    op->rdv->op_events->raise(op, sort_key);
}

static void op_raise_run(struct rendezvous *rdv, struct submission *submission)
{
    tryst_op *op = container_of(submission, tryst_op, raise);
    (void)rdv;
    /* relaxed: the word carries all the data. A thread that finds 0 from here on submits
     * again, and the submission orders that. */
    uint64_t to = atomic_exchange_explicit(&op->raise_to, 0, memory_order_relaxed);
    op_raise(op, (int32_t)(INT32_MAX + INT64_C(1) - (int64_t)to));
    op_unref(op);
}

tryst_status tryst_op_reprioritize(tryst_op *op, int32_t priority)
{
    if (!op)
        return refuse_null("reprioritize", "op");
    tryst_status usable = rendezvous_usable(op->rdv);
    if (usable != TRYST_OK)
        return refuse_unusable("reprioritize", usable);
    uint64_t to = (uint64_t)(INT32_MAX + INT64_C(1) - priority);
    /* relaxed, all three: they only decide which thread submits, and with which
     * priority. */
    uint64_t before = atomic_load_explicit(&op->raise_to, memory_order_relaxed);
    while (before < to && !atomic_compare_exchange_weak_explicit(&op->raise_to, &before,
                                                                 to, memory_order_relaxed,
                                                                 memory_order_relaxed))
        ;
    if (before)
        /* a submission is under way, with the more urgent of the two */
        return TRYST_OK;
    op_ref(op);
    op->raise.run = op_raise_run;
    rendezvous_submit(op->rdv, &op->raise);
    return TRYST_OK;
}

tryst_status tryst_op_tensor(const tryst_op *op, tryst_tensor *tensor_p)
{
    if (!op || !tensor_p)
        return refuse_null("read an operation's tensor", op ? "tensor_p" : "op");
    if (!tryst_sized_is_set(tensor_p))
        return refuse_unsized("read an operation's tensor", "tensor_p");
    tryst_status status = op_outcome(op);
    if (is_pending(status))
        return status;
    (void)tryst_sized_write(tensor_p, &op->tensor, sizeof op->tensor);
    return TRYST_OK;
}

tryst_status tryst_op_error(const tryst_op *op, tryst_error *error_p)
{
    if (!op || !error_p)
        return refuse_null("read an operation's error", op ? "error_p" : "op");
    tryst_status status = op_outcome(op);
    if (!tryst_sized_is_set(error_p))
        return refuse_unsized("read an operation's error", "error_p");
    if (status == TRYST_OK || is_pending(status))
        return status;
    const tryst_error error = {.status = status,
                               .origin_status = op->origin_status,
                               .origin_rank = op->origin_rank,
                               .step = op->step_id,
                               .key = op->key ? op->key->string : "",
                               .text = op->text ? op->text : tryst_status_str(status)};
    (void)tryst_sized_write(error_p, &error, sizeof error);
    return status;
}
