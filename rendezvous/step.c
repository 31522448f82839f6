/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps: scopes for keys, their abort and their close.
 *
 * Idea: the user's calls only hand in a submission; the scope changes in the progress domain,
 * where nothing can slip between a check of its status and an insertion into its table.
 * Invariant: after a scope is aborted or closing, an operation that reaches it is failed by the
 * one who drains it, so no operation is queued behind the sweep.
 * Callers: users; peer_link.c (an ABORT came); rendezvous_group_leave.
 */
#include "step.h"

#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "engine.h"
#include "live_gather.h"
#include "peer.h"
#include "rendezvous/group.h"
#include "want.h"

/* ---- open --------------------------------------------------------------------------------- */

/** What came before the step was opened no longer counts against the early bound. */
static void early_wants_settle(struct scope *scope)
{
    for (size_t i = 0; i < scope->buckets_count; i++) {
        for (struct entry *entry = scope->buckets[i]; entry; entry = entry->next) {
            struct queue_node *item = NULL;
            while ((item = queue_next(&entry->wants, item)) != NULL)
                want_settle(container_of(item, struct want, queued));
        }
    }
}

/** It is not early any more: who told us that it was aborted may tell us of another. */
static void scope_move(struct rendezvous *rdv, struct scope *scope,
                       enum scope_state state)
{
    if (scope->aborted_by >= 0)
        rdv->group->peers[scope->aborted_by].early_aborts--;
    scope->aborted_by = -1;
    scope_state_set(scope, state);
}

/** Ids only increase: what peers said of steps before `id` that were not opened is answered. */
static void skipped_close(struct rendezvous *rdv, uint64_t id)
{
    list_for_each_safe (&rdv->scopes.early, node, after) {
        struct scope *scope = container_of(node, struct scope, early_node);
        if (scope->id < id)
            scope_close(rdv, scope, TRYST_E_CLOSED, "its step was passed over");
    }
}

static void step_open_run(struct rendezvous *rdv, struct submission *submission)
{
    tryst_step *step = container_of(submission, tryst_step, open);
    struct scope *scope = scope_find(&rdv->scopes, step->id);
    if (scope) {
        scope_free(step->scope); /* peers were here first: their scope has content */
        step->scope = scope;
        early_wants_settle(scope);
    } else {
        scope = step->scope;
        scope_add(scope);
    }
    scope_move(rdv, scope, SCOPE_OPEN);
    skipped_close(rdv, step->id);
    abort_note_take(rdv, scope);
    scope->step = step;
    rdv->scopes.end = step->id + 1;
    rdv->scopes.open++;
    if (rdv->live)
        live_steps(rdv->live, rdv->scopes.end, rdv->scopes.open);
    if (scope->abort_status != TRYST_OK)
        step_publish_abort(step, scope);
}

/** Ids increase: take the step's if it is above the newest, and hand the step in. */
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
    if (!group || !step_p || id == UINT64_MAX)
        return TRYST_E_INVALID;
    tryst_status status = rendezvous_usable(group->rdv);
    if (status != TRYST_OK)
        return status;
    tryst_step *step = mem_zalloc(sizeof *step);
    if (!step)
        return TRYST_E_NOMEM;
    status = scope_open(&group->rdv->scopes, id, &step->scope);
    if (status != TRYST_OK)
        goto free_step;
    step->group = group;
    step->rdv = group->rdv;
    step->id = id;
    step->open.run = step_open_run;
    if (step_hand_in(group, step)) {
        *step_p = step;
        return TRYST_OK;
    }
    status = TRYST_E_INVALID;
    scope_free(step->scope);
free_step:
    mem_free(step);
    return status;
}

/* ---- abort -------------------------------------------------------------------------------- */

void step_publish_abort(struct tryst_step *step, const struct scope *scope)
{
    /* relaxed: only the progress domain writes it. */
    if (atomic_load_explicit(&step->described, memory_order_relaxed))
        return;
    step->origin_status = scope->abort_status;
    step->origin_rank = scope->abort_rank;
    snprintf(step->text, sizeof step->text, "%s", scope->abort_text);
    /* release: the fields above before the flag; partner: the acquire in tryst_step_status. */
    atomic_store_explicit(&step->described, true, memory_order_release);
    atomic_store_explicit(&step->status, TRYST_E_ABORTED, memory_order_release);
}

tryst_status step_refuses(const struct rendezvous *rdv, const struct scope *scope,
                          uint64_t step, int32_t *origin_rank_p)
{
    bool closed =
        scope ? scope->state == SCOPE_CLOSING : scope_is_closed(&rdv->scopes, step);
    const struct link_abort *note = closed && !scope ? abort_note_find(rdv, step) : NULL;
    if (scope && scope->abort_status != TRYST_OK) {
        *origin_rank_p = scope->abort_rank;
        return TRYST_E_ABORTED;
    }
    if (note) {
        *origin_rank_p = note->origin_rank;
        return TRYST_E_ABORTED;
    }
    *origin_rank_p = rdv->group->roster.rank;
    return closed ? TRYST_E_CLOSED : TRYST_OK;
}

static void abort_ops(struct scope *scope, struct list *ops)
{
    list_for_each_safe (ops, node, after)
        op_fail(container_of(node, tryst_op, scope_node), TRYST_E_ABORTED,
                scope->abort_rank, scope->abort_text);
}

bool scope_abort(struct scope *scope, tryst_status status, int32_t rank, uint64_t time_ns,
                 const char *text)
{
    bool first = scope->abort_status == TRYST_OK;
    if (!first &&
        !abort_is_earlier(time_ns, rank, scope->abort_time_ns, scope->abort_rank))
        return false;
    scope->abort_status = status;
    scope->abort_rank = rank;
    scope->abort_time_ns = time_ns;
    snprintf(scope->abort_text, sizeof scope->abort_text, "%s", text);
    if (!first)
        return true;
    if (scope->step)
        step_publish_abort(scope->step, scope);
    producer_scope_answer(scope, RECORD_CANCELED, TRYST_E_ABORTED, rank);
    abort_ops(scope, &scope->ops);
    abort_ops(scope, &scope->warned);
    return true;
}

/** The step to be aborted: for one that is not open here a place is kept, so many for each peer. */
static struct scope *abort_scope(struct rendezvous *rdv, uint64_t step, struct peer *from)
{
    struct scope *scope = scope_find(&rdv->scopes, step);
    bool early =
        scope ? scope->state == SCOPE_EARLY : !scope_is_closed(&rdv->scopes, step);
    if (!from || !early || (scope && scope->aborted_by >= 0))
        return scope;
    if (from->early_aborts == EARLY_ABORTS_MAX) {
        peer_give_up(from, TRYST_E_PROTOCOL,
                     "has aborted too many steps that are not open here");
        return scope;
    }
    scope = scope ? scope : scope_open_early(&rdv->scopes, step);
    if (!scope)
        return NULL;
    from->early_aborts++;
    scope->aborted_by = from->rank;
    return scope;
}

void rendezvous_abort(struct rendezvous *rdv, uint64_t step, tryst_status status,
                      int32_t rank, uint64_t time_ns, const char *text, struct peer *from)
{
    struct scope *scope = abort_scope(rdv, step, from);
    if (!scope) { /* closed here; or no memory, and it opens later: a note */
        struct link_abort head = {
            .step = step, .time_ns = time_ns, .status = status, .origin_rank = rank};
        abort_pass_on(rdv, &head, text, from);
        return;
    }
    if (!scope_abort(scope, status, rank, time_ns, text))
        return;
    for (int i = 0; i < rdv->group->roster.size; i++)
        if (&rdv->group->peers[i] != from)
            abort_send(&rdv->group->peers[i], scope);
}

static void step_abort_run(struct rendezvous *rdv, struct submission *submission)
{
    tryst_step *step = container_of(submission, tryst_step, abort);
    int32_t rank = step->group->roster.rank;
    rendezvous_abort(rdv, step->id, step->asked_status, rank, clock_wall_ns(),
                     step->asked_text, NULL);
}

tryst_status tryst_step_abort(tryst_step *step, tryst_status status, const char *reason)
{
    if (!step || status < 100)
        return TRYST_E_INVALID;
    tryst_status usable = rendezvous_usable(step->rdv);
    if (usable != TRYST_OK)
        return usable;
    /* relaxed: decides who writes the request; the submission publishes it. */
    if (atomic_exchange_explicit(&step->abort_asked, true, memory_order_relaxed))
        return TRYST_OK;
    step->asked_status = status;
    snprintf(step->asked_text, sizeof step->asked_text, "%s",
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
        return TRYST_E_INVALID;
    if (rendezvous_usable(step->rdv) == TRYST_E_FORKED)
        return TRYST_E_FORKED;
    /* acquire: partners of the releases in step_publish_abort and tryst_step_abort. */
    tryst_status status = atomic_load_explicit(&step->status, memory_order_acquire);
    bool described = atomic_load_explicit(&step->described, memory_order_acquire);
    if (status != TRYST_OK && error_p)
        *error_p =
            (tryst_error){.status = status,
                          .origin_status = described ? step->origin_status : status,
                          .origin_rank = described ? step->origin_rank : -1,
                          .step = step->id,
                          .key = "",
                          .text = described ? step->text : "the step is being aborted"};
    return status;
}

/* ---- close -------------------------------------------------------------------------------- */

static void close_ops(struct list *ops, tryst_status status, const char *text)
{
    list_for_each_safe (ops, node, after) {
        tryst_op *op = container_of(node, tryst_op, scope_node);
        op_fail(op, status, -1, text);
        /* DONE is owed, the OFFER that answers a WANT, and, unless the group ends, the WANT(VOID)
         * of what was given up before, unannounced: its send ends with it. */
        unsigned owed = status == TRYST_E_CONTEXT ? MARK_DONE : MARK_DONE | MARK_WANT;
        bool owes = op->marks & owed || (op->marks & MARK_OFFER && op->want_id);
        if (op->state == OP_VOID && !owes)
            op_end(op);
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
    producer_scope_answer(scope, RECORD_CLOSED, TRYST_E_CLOSED, rank);
    close_ops(&scope->ops, status, text);
    close_ops(&scope->warned, status, text);
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
    mem_free(step);
}

tryst_status tryst_step_close(tryst_step *step, tryst_op **op_p)
{
    if (!step)
        return TRYST_E_INVALID;
    tryst_status status = rendezvous_usable(step->rdv);
    if (status != TRYST_OK)
        return status;
    if (op_p) {
        step->close_op = op_open(step->rdv, OP_STEP_CLOSE);
        if (!step->close_op)
            return TRYST_E_NOMEM;
        step->close_op->step_id = step->id;
        step->close_op->tensor = (tryst_tensor){0};
        step->close_op->submitted_ns = clock_now_ns(step->rdv->clock);
        *op_p = step->close_op;
    }
    step->close.run = step_close_run;
    rendezvous_submit(step->rdv, &step->close);
    return TRYST_OK;
}
