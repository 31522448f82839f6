/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps: scopes for keys, their abort and their close.
 *
 * Idea: the user's calls only submit; the scope changes in the progress domain, where
 * nothing can come between a check of its status and an insertion into its table.
 *
 * Invariant: an operation that reaches an aborted or closing scope is failed by the
 * thread that runs its submission, so no operation is queued after the scope's operations
 * were failed.
 */
#include "step.h"
#include "core/text/refuse.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/op/engine.h"
#include "rendezvous/peer/abort.h"
#include "rendezvous/peer/group.h"
#include "rendezvous/peer/peer.h"
#include "rendezvous/progress/live_gather.h"
#include "rendezvous/progress/submission.h"
#include "rendezvous/protocol/producer.h"
#include "rendezvous/protocol/protocol.h"
#include "rendezvous/protocol/want.h"
#include "tryst/sized.h"

/* ---- aborted ----------------------------------------------------------------------- */

static void publish_abort(struct tryst_step *step, const struct scope *scope)
{
    /* relaxed: only the progress domain writes it. */
    if (atomic_load_explicit(&step->described, memory_order_relaxed))
        return;
    step->origin_status = scope->abort_status;
    step->origin_rank = scope->abort_rank;
    snprintf(step->text, sizeof step->text, "%s", scope->abort_text);
    /* release: the fields above before the flag; pairs with the acquire in
     * tryst_step_status. */
    atomic_store_explicit(&step->described, true, memory_order_release);
    atomic_store_explicit(&step->status, TRYST_E_ABORTED, memory_order_release);
}

void step_aborted(struct scope *scope)
{
    if (scope->step)
        publish_abort(scope->step, scope);
    protocol_scope_aborted(scope);
}

/* ---- open -------------------------------------------------------------------------- */

/* Stop counting the scope's parked WANTs against the early bound, since the step is open
 * now. */
static void early_wants_settle(struct scope *scope)
{
    for (struct entry *entry = NULL; (entry = entry_next(scope, entry)) != NULL;) {
        list_for_each_safe (&entry->wants, node, after)
            want_settle(container_of(node, struct want, parked.node));
    }
}

/* Change the scope's state from early. */
static void scope_move(struct rendezvous *rdv, struct scope *scope,
                       enum scope_state state)
{
    abort_early_end(rdv, scope);
    scope_state_set(scope, state);
}

/* Close the early steps below `id`: ids only increase, so they will not be opened here.
 * Their records are answered. */
static void skipped_close(struct rendezvous *rdv, uint64_t id)
{
    list_for_each_safe (&rdv->scopes.early, node, after) {
        struct scope *scope = container_of(node, struct scope, early_node);
        if (scope->id < id)
            scope_close(rdv, scope, TRYST_E_CLOSED, "its step was skipped");
    }
}

static void step_open_run(struct rendezvous *rdv, struct submission *submission)
{
    tryst_step *step = container_of(submission, tryst_step, open);
    struct scope *scope = scope_find(&rdv->scopes, step->id);
    if (scope) {
        scope_free(step->scope); /* peers were first: their scope has records */
        step->scope = scope;
        early_wants_settle(scope);
    } else {
        scope = step->scope;
        scope_add(scope);
    }
    scope_move(rdv, scope, SCOPE_OPEN);
    skipped_close(rdv, step->id);
    abort_note_apply(rdv, scope);
    scope->step = step;
    scope_opened_note(&rdv->scopes, step->id);
    rdv->scopes.open++;
    if (rdv->live)
        live_steps(rdv->live, rdv->scopes.end, rdv->scopes.open);
    if (scope->abort_status != TRYST_OK)
        publish_abort(step, scope);
}

/* Take the step's id if it is above the newest id, and submit the step. False: the id is
 * not above. */
static bool step_hand_in(tryst_group *group, tryst_step *step)
{
    pthread_mutex_lock(&group->step_lock);
    bool above = step->id >= group->steps_end;
    if (above) {
        group->steps_end = step->id + 1;
        rendezvous_submit(group->rdv, &step->open);
    }
    pthread_mutex_unlock(&group->step_lock);
    return above;
}

tryst_status tryst_step_open(tryst_group *group, uint64_t id, tryst_step **step_p)
{
    if (!group || !step_p)
        return refuse_null("open a step", group ? "step_p" : "group");
    if (id == UINT64_MAX)
        return refuse(TRYST_E_INVALID,
                      "cannot open a step: id is UINT64_MAX; ids are smaller");
    tryst_status status = rendezvous_usable(group->rdv);
    if (status != TRYST_OK)
        return refuse_unusable("open a step", status);
    tryst_step *step = pool_get(group->rdv->steps);
    if (!step)
        return refuse_nomem("open a step");
    memset(step, 0, sizeof *step);
    status = scope_open(&group->rdv->scopes, id, &step->scope);
    if (status != TRYST_OK) {
        status = refuse_nomem("open a step");
        goto free_step;
    }
    step->group = group;
    step->rdv = group->rdv;
    step->id = id;
    step->open.run = step_open_run;
    if (step_hand_in(group, step)) {
        *step_p = step;
        return TRYST_OK;
    }
    status = refuse(TRYST_E_INVALID,
                    "cannot open a step: id %" PRIu64 " is not above the newest, %" PRIu64
                    "; ids increase",
                    id, group->steps_end - 1);
    scope_free(step->scope);
free_step:
    pool_put(group->rdv->steps, step);
    return status;
}

/* ---- abort ------------------------------------------------------------------------- */

static void step_abort_run(struct rendezvous *rdv, struct submission *submission)
{
    tryst_step *step = container_of(submission, tryst_step, abort);
    int32_t rank = step->group->roster.rank;
    rendezvous_abort(rdv, step->id, step->requested_status, rank, clock_wall_ns(),
                     step->requested_text, NULL);
}

tryst_status tryst_step_abort(tryst_step *step, tryst_status status, const char *reason)
{
    if (!step)
        return refuse_null("abort a step", "step");
    if (status < 100)
        return refuse(
            TRYST_E_INVALID,
            "cannot abort a step: status %d (%s) is not an error; errors are 100 "
            "and above",
            status, tryst_status_name(status));
    tryst_status usable = rendezvous_usable(step->rdv);
    if (usable != TRYST_OK)
        return refuse_unusable("abort a step", usable);
    /* relaxed: decides which thread writes the request; the submission publishes it. */
    if (atomic_exchange_explicit(&step->abort_requested, true, memory_order_relaxed))
        return TRYST_OK;
    step->requested_status = status;
    snprintf(step->requested_text, sizeof step->requested_text, "%s",
             reason ? reason : tryst_status_str(status));
    /* release: pairs with the acquire of a submission on another thread. */
    atomic_store_explicit(&step->status, TRYST_E_ABORTED, memory_order_release);
    step->abort.run = step_abort_run;
    rendezvous_submit(step->rdv, &step->abort);
    return TRYST_OK;
}

tryst_status tryst_step_status(const tryst_step *step, tryst_error *error_p)
{
    if (!step)
        return refuse_null("read a step's status", "step");
    if (error_p && !tryst_sized_is_set(error_p))
        return refuse_unsized("read a step's status", "error_p");
    if (rendezvous_usable(step->rdv) == TRYST_E_FORKED)
        return refuse_unusable("read a step's status", TRYST_E_FORKED);
    /* acquire: pairs with the releases in publish_abort and tryst_step_abort. */
    tryst_status status = atomic_load_explicit(&step->status, memory_order_acquire);
    bool described = atomic_load_explicit(&step->described, memory_order_acquire);
    if (status == TRYST_OK || !error_p)
        return status;
    /* Aborted and not described: tryst_step_abort wrote `status`, after the request;
     * publish_abort writes `described` first. */
    const tryst_error error = {
        .status = status,
        .origin_status = described ? step->origin_status : step->requested_status,
        .origin_rank = described ? step->origin_rank : step->group->roster.rank,
        .step = step->id,
        .key = "",
        .text = described ? step->text : step->requested_text};
    (void)tryst_sized_write(error_p, &error, sizeof error);
    return status;
}

/* ---- close ------------------------------------------------------------------------- */

/* End `op`, which has failed, unless its peer still needs a record of it: DONE, or the
 * OFFER that answers a WANT. Unless the group ends, the peer needs two more: the failure
 * of a flow, and the WANT(VOID) of a receive that was given up before it was announced,
 * since that WANT ends the send. */
static void op_void_end(tryst_op *op, bool group_ends)
{
    unsigned needed = group_ends ? QUEUED_DONE : QUEUED_DONE | QUEUED_WANT;
    if (urgent_queued(&op->deferred_node) && !group_ends)
        return;
    if (op->kind == OP_SEND)
        producer_failure_drop(op);
    if (!(op->records & needed || (op->records & QUEUED_OFFER && op->want_id)))
        op_end(op);
}

static void close_ops(struct list *ops, tryst_status status, const char *text)
{
    list_for_each_safe (ops, node, after) {
        tryst_op *op = container_of(node, tryst_op, scope_node);
        op_fail(op, status, text);
        if (op->state == OP_VOID)
            op_void_end(op, status == TRYST_E_CONTEXT);
    }
}

void scope_close(struct rendezvous *rdv, struct scope *scope, tryst_status status,
                 const char *text)
{
    int32_t rank = rdv->group->roster.rank;
    rdv->scopes.open -= scope->state == SCOPE_OPEN;
    if (rdv->live)
        live_steps(rdv->live, rdv->scopes.end, rdv->scopes.open);
    scope_move(rdv, scope, SCOPE_CLOSING);
    scope->step = NULL;
    /* first: the cause of a held send answers its WANT */
    close_ops(&scope->ops, status, text);
    close_ops(&scope->warned, status, text);
    bool leaves = status == TRYST_E_CONTEXT;
    producer_scope_answer(scope, RECORD_CLOSED, leaves ? TRYST_E_LEFT : TRYST_E_CLOSED,
                          rank);
    rendezvous_reap_later(rdv, scope);
}

static void step_close_run(struct rendezvous *rdv, struct submission *submission)
{
    tryst_step *step = container_of(submission, tryst_step, close);
    step->scope->close_op = step->close_op;
    if (step->close_op) {
        rdv->counters.submitted++;
        if (rdv->live)
            live_op_begin(rdv->live, step->close_op, NULL, -1);
    }
    scope_close(rdv, step->scope, TRYST_E_CANCELED, "its step was closed");
    pool_put(rdv->steps, step);
}

tryst_status tryst_step_close(tryst_step *step, tryst_op **op_p)
{
    if (!step)
        return refuse_null("close a step", "step");
    tryst_status status = rendezvous_usable(step->rdv);
    if (status != TRYST_OK)
        return refuse_unusable("close a step", status);
    if (op_p) {
        step->close_op = op_open(step->rdv, OP_STEP_CLOSE);
        if (!step->close_op)
            return refuse_nomem("close a step");
        step->close_op->step_id = step->id;
        step->close_op->tensor = (tryst_tensor){0};
        step->close_op->submitted_ns = clock_now_ns(step->rdv->clock);
        step->close_op->recorded = step->rdv->coll_calls.used != NULL;
        *op_p = step->close_op;
    }
    step->close.run = step_close_run;
    rendezvous_submit(step->rdv, &step->close);
    return TRYST_OK;
}
