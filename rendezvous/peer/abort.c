/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Aborts of steps, passed from rank to rank.
 *
 * Idea: an abort floods over every link that is up. For a link that comes up later, the
 * abort is read from the step while the step is open, and from a note once the step has
 * been closed. A rank that has closed the step still forwards the abort along the control
 * tree.
 *
 * Invariants: of two causes of one step's abort the earlier (origin time, rank) counts,
 * in the step and in its one note; the notes are those of the newest steps. A cause that
 * is not new is not forwarded, so the flood ends.
 */
#include "abort.h"

#include <stdio.h>
#include <string.h>

#include "core/text/text.h"
#include "fault.h"
#include "messages.h"
#include "rendezvous/peer/peer.h"
#include "tree.h"

static bool is_earlier(const struct abort_note *note, uint64_t than_ns, int32_t than_rank)
{
    return note->time_ns < than_ns ||
           (note->time_ns == than_ns && note->rank < than_rank);
}

static void note_make(const struct scope *scope, struct abort_note *note)
{
    note->step = scope->id;
    note->time_ns = scope->abort_time_ns;
    note->status = scope->abort_status;
    note->rank = scope->abort_rank;
    snprintf(note->text, sizeof note->text, "%s", scope->abort_text);
}

/* ---- notes ------------------------------------------------------------------------- */

static const struct abort_note *note_find(const struct rendezvous *rdv, uint64_t step)
{
    for (uint32_t i = 0; i < rdv->aborts_count; i++)
        if (rdv->aborts[i].step == step)
            return &rdv->aborts[i];
    return NULL;
}

/* Return the place for a note of `step`: the note that the step has, a free place, or
 * the note of the oldest step. NULL: all notes are of newer steps. */
static struct abort_note *note_place(struct rendezvous *rdv, uint64_t step)
{
    struct abort_note *oldest = &rdv->aborts[0];
    for (uint32_t i = 0; i < rdv->aborts_count; i++) {
        struct abort_note *note = &rdv->aborts[i];
        if (note->step == step)
            return note;
        if (note->step < oldest->step)
            oldest = note;
    }
    if (rdv->aborts_count < ABORT_NOTES)
        return &rdv->aborts[rdv->aborts_count++];
    return oldest->step < step ? oldest : NULL;
}

/* Keep the note; true if its cause is new and there was a place for it. */
static bool note_keep(struct rendezvous *rdv, const struct abort_note *note)
{
    const struct abort_note *known = note_find(rdv, note->step);
    if (known && !is_earlier(note, known->time_ns, known->rank))
        return false;
    struct abort_note *place = note_place(rdv, note->step);
    if (place)
        *place = *note;
    return place != NULL;
}

void abort_note_scope(struct rendezvous *rdv, const struct scope *scope)
{
    struct abort_note note;
    if (scope->abort_status == TRYST_OK)
        return;
    note_make(scope, &note);
    (void)note_keep(rdv, &note);
}

tryst_status step_refuses(const struct rendezvous *rdv, const struct scope *scope,
                          uint64_t step, int32_t *origin_rank_p)
{
    bool closed =
        scope ? scope->state == SCOPE_CLOSING : scope_is_closed(&rdv->scopes, step);
    const struct abort_note *note = closed && !scope ? note_find(rdv, step) : NULL;
    if (scope && scope->abort_status != TRYST_OK) {
        *origin_rank_p = scope->abort_rank;
        return TRYST_E_ABORTED;
    }
    if (note) {
        *origin_rank_p = note->rank;
        return TRYST_E_ABORTED;
    }
    *origin_rank_p = rdv->group->roster.rank;
    return closed ? TRYST_E_CLOSED : TRYST_OK;
}

/* ---- send -------------------------------------------------------------------------- */

static void note_send(struct peer *peer, const struct abort_note *note)
{
    struct {
        struct link_abort head;
        char text[sizeof note->text];
    } message;
    size_t text_bytes = strlen(note->text);
    if (!peer->link.link || peer->link.state != PEER_LINK_UP)
        return;
    message.head = (struct link_abort){.step = note->step,
                                       .time_ns = note->time_ns,
                                       .status = note->status,
                                       .origin_rank = note->rank,
                                       .text_bytes = (uint32_t)text_bytes};
    memcpy(message.text, note->text, text_bytes);
    (void)link_send(peer->link.link, LINK_ABORT, &message,
                    sizeof message.head + text_bytes, -1);
}

void abort_send_all(struct peer *peer)
{
    struct rendezvous *rdv = peer->rdv;
    list_for_each_safe (&rdv->scopes.all, node, after) {
        struct scope *scope = container_of(node, struct scope, node);
        struct abort_note note;
        if (scope->abort_status == TRYST_OK)
            continue;
        note_make(scope, &note);
        note_send(peer, &note);
    }
    for (uint32_t i = 0; i < rdv->aborts_count; i++)
        note_send(peer, &rdv->aborts[i]);
}

static void note_broadcast(struct rendezvous *rdv, const struct abort_note *note,
                           const struct peer *from)
{
    list_for_each_safe (&rdv->group->met, node, after) {
        struct peer *to = container_of(node, struct peer, node);
        if (to != from)
            note_send(to, note);
    }
}

/* Forward the abort of a step that is closed here along the control tree, where
 * the step may still be open. */
static void pass_on(struct rendezvous *rdv, const struct abort_note *note,
                    const struct peer *from)
{
    const struct tryst_group *group = rdv->group;
    if (!note_keep(rdv, note))
        /* the neighbours have it already, or the step is too old for a note */
        return;
    list_for_each_safe (&group->met, node, after) {
        struct peer *to = container_of(node, struct peer, node);
        if (to != from && peer_tree_neighbours(group, group->roster.rank, to->rank))
            note_send(to, note);
    }
}

/* ---- a step is aborted ------------------------------------------------------------- */

/* Abort the scope; true if this cause is new. */
static bool scope_abort(struct rendezvous *rdv, struct scope *scope,
                        const struct abort_note *cause)
{
    bool first = scope->abort_status == TRYST_OK;
    if (!first && !is_earlier(cause, scope->abort_time_ns, scope->abort_rank))
        return false;
    scope->abort_status = cause->status;
    scope->abort_rank = cause->rank;
    scope->abort_time_ns = cause->time_ns;
    snprintf(scope->abort_text, sizeof scope->abort_text, "%s", cause->text);
    if (first)
        rdv->peer_events->aborted(scope);
    return true;
}

void abort_note_apply(struct rendezvous *rdv, struct scope *scope)
{
    const struct abort_note *note = note_find(rdv, scope->id);
    if (note)
        (void)scope_abort(rdv, scope, note);
}

/* Return the scope to abort. For a step that is not open here an early
 * scope is made, at most EARLY_ABORTS_MAX for each peer. NULL: the step is
 * closed here, or memory is short. */
static struct scope *abort_scope(struct rendezvous *rdv, uint64_t step, struct peer *from)
{
    struct scope *scope = scope_find(&rdv->scopes, step);
    bool early =
        scope ? scope->state == SCOPE_EARLY : !scope_is_closed(&rdv->scopes, step);
    if (!from || !early || (scope && scope->aborted_by >= 0))
        return scope;
    if (from->in.early_aborts == EARLY_ABORTS_MAX) {
        peer_fault(from, PEER_FAULT_ABORTS, NULL);
        return scope;
    }
    scope = scope ? scope : scope_open_early(&rdv->scopes, step);
    if (!scope)
        return NULL;
    from->in.early_aborts++;
    scope->aborted_by = from->rank;
    return scope;
}

void rendezvous_abort(struct rendezvous *rdv, uint64_t step, tryst_status status,
                      int32_t rank, uint64_t time_ns, const char *text, struct peer *from)
{
    struct abort_note cause = {
        .step = step, .time_ns = time_ns, .status = status, .rank = rank};
    struct scope *scope = abort_scope(rdv, step, from);
    snprintf(cause.text, sizeof cause.text, "%s", text);
    if (!scope) /* closed here, or no memory for an early scope: keep a note */
        pass_on(rdv, &cause, from);
    else if (scope_abort(rdv, scope, &cause))
        note_broadcast(rdv, &cause, from);
}

void abort_read(struct peer *peer, const void *data, size_t bytes)
{
    struct link_abort abort;
    char text[256];
    if (bytes < sizeof abort)
        return;
    memcpy(&abort, data, sizeof abort);
    if (abort.text_bytes != bytes - sizeof abort || abort.status < 100 ||
        abort.origin_rank < 0 || abort.origin_rank >= peer->rdv->group->roster.size)
        return;
    text_escape((const char *)data + sizeof abort, abort.text_bytes, text, sizeof text);
    rendezvous_abort(peer->rdv, abort.step, abort.status, abort.origin_rank,
                     abort.time_ns, text, peer);
}
