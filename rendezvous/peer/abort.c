/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Aborts of steps, passed from rank to rank.
 *
 * Idea: an abort floods over every link that is up. No message waits in a queue: causes
 * are numbered, each peer has the number of the last one that was sent to it, and the
 * next ones are read from the steps, or from notes of closed steps, when the link has
 * room. So a rank that computes for long costs its peers nothing. A rank that has closed
 * the step still forwards the abort along the control tree.
 *
 * Invariants: of two causes of one step's abort the earlier (origin time, rank) counts,
 * in the step and in its one note; the notes are those of the newest steps. A cause that
 * is not new is not forwarded, so the flood ends. Steps that are not open here hold a
 * bounded number of aborts of each origin.
 */
#include "abort.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/text/text.h"
#include "fault.h"
#include "messages.h"
#include "rendezvous/peer/peer.h"
#include "tree.h"

/* A dropped abort is logged at most once in this time. */
#define DROPPED_LOG_NS (10 * NS_PER_S)

static bool is_earlier(const struct abort_note *note, uint64_t than_ns, int32_t than_rank)
{
    return note->time_ns < than_ns ||
           (note->time_ns == than_ns && note->rank < than_rank);
}

static void note_make(const struct scope *scope, struct abort_note *note)
{
    note->step = scope->id;
    note->number = scope->abort_number;
    note->from = scope->abort_from;
    note->late = false;
    note->time_ns = scope->abort_time_ns;
    note->status = scope->abort_status;
    note->rank = scope->abort_rank;
    snprintf(note->text, sizeof note->text, "%s", scope->abort_text);
}

/* ---- notes ------------------------------------------------------------------------- */

static const struct abort_note *note_find(const struct rendezvous *rdv, uint64_t step)
{
    for (uint32_t i = 0; i < rdv->aborts.count; i++)
        if (rdv->aborts.notes[i].step == step)
            return &rdv->aborts.notes[i];
    return NULL;
}

/* Return the place for a note of `step`: the note that the step has, a free place, or
 * the note of the oldest step. NULL: all notes are of newer steps. */
static struct abort_note *note_place(struct rendezvous *rdv, uint64_t step)
{
    struct abort_note *oldest = &rdv->aborts.notes[0];
    for (uint32_t i = 0; i < rdv->aborts.count; i++) {
        struct abort_note *note = &rdv->aborts.notes[i];
        if (note->step == step)
            return note;
        if (note->step < oldest->step)
            oldest = note;
    }
    if (rdv->aborts.count < ABORT_NOTES)
        return &rdv->aborts.notes[rdv->aborts.count++];
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

struct cause step_refuses(const struct rendezvous *rdv, const struct scope *scope,
                          uint64_t step)
{
    int32_t rank = rdv->group->roster.rank;
    bool closed =
        scope ? scope->state == SCOPE_CLOSING : scope_is_closed(&rdv->scopes, step);
    const struct abort_note *note = closed && !scope ? note_find(rdv, step) : NULL;
    if (scope && scope->abort_status != TRYST_OK)
        return (struct cause){TRYST_E_ABORTED, scope->abort_rank, scope->abort_status};
    if (note)
        return (struct cause){TRYST_E_ABORTED, note->rank, note->status};
    tryst_status status = !closed                          ? TRYST_OK
                          : rdv->leave.state != LEAVE_NONE ? TRYST_E_LEFT
                                                           : TRYST_E_CLOSED;
    return (struct cause){status, rank, status};
}

const char *step_refusal_text(struct rendezvous *rdv, uint64_t step, tryst_status status,
                              char text[static ABORT_TEXT_BYTES])
{
    static const char skips[] =
        "rank %d is at step %" PRIu64 " and has passed step %" PRIu64
        " without opening it; step ids must be equal on all ranks";
    int32_t rank = rdv->group->roster.rank;
    const struct scope *scope = scope_find(&rdv->scopes, step);
    const struct abort_note *note = note_find(rdv, step);
    text[0] = '\0';
    if (step_refuses(rdv, scope, step).status != status)
        return text;
    if (status == TRYST_E_ABORTED)
        (void)snprintf(text, ABORT_TEXT_BYTES, "%s",
                       scope ? scope->abort_text : note->text);
    else if (status == TRYST_E_LEFT)
        (void)snprintf(text, ABORT_TEXT_BYTES, "rank %d has left the group", rank);
    else if (scope_was_skipped(&rdv->scopes, step))
        (void)snprintf(text, ABORT_TEXT_BYTES, skips, rank, rdv->scopes.end - 1, step);
    else
        (void)snprintf(text, ABORT_TEXT_BYTES, "rank %d has closed the step", rank);
    return text;
}

/* ---- send -------------------------------------------------------------------------- */

static void note_send(struct peer *peer, const struct abort_note *note)
{
    struct {
        struct link_abort head;
        char text[sizeof note->text];
    } message;
    size_t text_bytes = strlen(note->text);
    message.head = (struct link_abort){.step = note->step,
                                       .time_ns = note->time_ns,
                                       .status = note->status,
                                       .origin_rank = note->rank,
                                       .text_bytes = (uint32_t)text_bytes};
    memcpy(message.text, note->text, text_bytes);
    (void)link_send(peer->link.link, LINK_ABORT, &message,
                    sizeof message.head + text_bytes, -1);
}

/* True if the abort is to be sent to the peer: it may lack the abort and, if the step was
 * closed before the abort, is a neighbour in the control tree. */
static bool note_is_for(const struct abort_note *note, const struct peer *peer)
{
    const struct tryst_group *group = peer->rdv->group;
    return peer->rank != note->from &&
           (!note->late || peer_tree_neighbours(group, group->roster.rank, peer->rank));
}

/* True if the link is up and has sent all earlier messages, and the peer is not being
 * given up. */
static bool link_has_room(const struct peer *peer)
{
    return peer->link.link && peer->link.state == PEER_LINK_UP &&
           peer->life < PEER_GIVING_UP && link_is_flushed(peer->link.link);
}

/* Return the first aborted scope with a cause after `number`; NULL: none. */
static const struct scope *scope_after(const struct scopes *scopes, uint64_t number)
{
    const struct list_node *head = &scopes->aborted.head, *node = head;
    while (node->prev != head &&
           container_of(node->prev, struct scope, aborted_node)->abort_number > number)
        node = node->prev;
    return node == head ? NULL : container_of(node, struct scope, aborted_node);
}

static const struct abort_note *note_after(const struct rendezvous *rdv, uint64_t number)
{
    const struct abort_note *next = NULL;
    for (uint32_t i = 0; i < rdv->aborts.count; i++)
        if (rdv->aborts.notes[i].number > number &&
            (!next || rdv->aborts.notes[i].number < next->number))
            next = &rdv->aborts.notes[i];
    return next;
}

void aborts_send(struct peer *peer)
{
    const struct rendezvous *rdv = peer->rdv;
    const struct list_node *end = &rdv->scopes.aborted.head;
    uint64_t *sent = &peer->aborts_sent;
    if (*sent == rdv->scopes.aborts || !link_has_room(peer))
        return;
    const struct scope *scope = scope_after(&rdv->scopes, *sent);
    while (link_has_room(peer)) {
        const struct abort_note *note = note_after(rdv, *sent);
        struct abort_note made;
        if (scope && (!note || scope->abort_number <= note->number)) {
            const struct list_node *next = scope->aborted_node.next;
            note_make(scope, &made);
            note = &made;
            scope = next == end ? NULL : container_of(next, struct scope, aborted_node);
        }
        if (!note) {
            *sent = rdv->scopes.aborts;
            return;
        }
        *sent = note->number;
        if (note_is_for(note, peer))
            note_send(peer, note);
    }
}

void aborts_send_all(struct rendezvous *rdv)
{
    rdv->aborts_due = false;
    if (!rdv->group)
        return;
    list_for_each_safe (&rdv->group->met, node, after)
        aborts_send(container_of(node, struct peer, node));
}

/* Send a new cause: at once if it is this rank's own. Causes from peers may be many; they
 * are forwarded together at the end of the pass. */
static void causes_send(struct rendezvous *rdv, const struct peer *from)
{
    if (!from) {
        aborts_send_all(rdv);
        return;
    }
    rdv->aborts_due = true;
    engine_reap_soon(rdv);
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
    scope->abort_from = cause->from;
    scope->abort_time_ns = cause->time_ns;
    scope->abort_number = ++rdv->scopes.aborts;
    list_remove(&scope->aborted_node);
    list_push_back(&rdv->scopes.aborted, &scope->aborted_node);
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

/* ---- steps that are not open here yet ---------------------------------------------- */

/* True if no further early abort of this origin, reported by `from`, is kept. */
static bool early_is_full(const struct peer *from, int32_t origin)
{
    if (from->rank == origin)
        return from->in.early_aborts == EARLY_ABORTS_MAX;
    return from->rdv->group->passed_aborts[origin] == EARLY_ABORTS_MAX ||
           from->in.passed_aborts == PASSED_ABORTS_MAX;
}

/* Count, or stop counting, the abort of an early scope. */
static void early_count(struct rendezvous *rdv, const struct scope *scope, int count)
{
    struct peer *from = rdv->group->peers[scope->early_from];
    if (from->rank == scope->early_origin) {
        from->in.early_aborts += (uint32_t)count;
        return;
    }
    from->in.passed_aborts += (uint32_t)count;
    rdv->group->passed_aborts[scope->early_origin] += (uint16_t)count;
}

void abort_early_end(struct rendezvous *rdv, struct scope *scope)
{
    if (scope->early_from >= 0)
        early_count(rdv, scope, -1);
    scope->early_from = -1;
}

/* Drop an abort for which no room is left. Give the peer up if the abort is its own; an
 * abort that the peer passes on proves nothing about its origin, and is only logged. */
static void early_drop(struct peer *from, int32_t origin)
{
    struct rendezvous *rdv = from->rdv;
    if (from->rank == origin)
        peer_fault(from, PEER_FAULT_ABORTS, NULL);
    else
        LOG_WARN_LIMITED(rdv->log, &rdv->limits.aborts, DROPPED_LOG_NS,
                         "cannot keep an abort of rank %d, passed on by rank %d: too "
                         "many aborts wait here for steps that are not open yet",
                         origin, from->rank);
}

/* Find or make the scope of a step that is not open here yet, to abort it. False: there
 * is no room for the abort. True with *scope_p NULL: no memory for the scope. */
static bool early_scope(struct peer *from, const struct abort_note *cause,
                        struct scope **scope_p)
{
    struct rendezvous *rdv = from->rdv;
    struct scope *scope = *scope_p;
    if (scope && scope->early_from >= 0)
        return true;
    if (early_is_full(from, cause->rank)) {
        early_drop(from, cause->rank);
        return false;
    }
    *scope_p = scope = scope ? scope : scope_open_early(&rdv->scopes, cause->step);
    if (!scope)
        return true;
    scope->early_from = from->rank;
    scope->early_origin = cause->rank;
    early_count(rdv, scope, 1);
    return true;
}

/* ---- ABORT ------------------------------------------------------------------------- */

void rendezvous_abort(struct rendezvous *rdv, uint64_t step, tryst_status status,
                      int32_t rank, uint64_t time_ns, const char *text, struct peer *from)
{
    struct abort_note cause = {.step = step,
                               .time_ns = time_ns,
                               .status = status,
                               .rank = rank,
                               .from = from ? from->rank : -1};
    struct scope *scope = scope_find(&rdv->scopes, step);
    bool early =
        scope ? scope->state == SCOPE_EARLY : !scope_is_closed(&rdv->scopes, step);
    snprintf(cause.text, sizeof cause.text, "%s", text);
    if (from && early && !early_scope(from, &cause, &scope))
        return;
    if (scope) {
        if (scope_abort(rdv, scope, &cause))
            causes_send(rdv, from);
        return;
    }
    /* closed here, or no memory for an early scope */
    cause.late = true;
    cause.number = rdv->scopes.aborts + 1;
    if (note_keep(rdv, &cause)) {
        rdv->scopes.aborts++;
        causes_send(rdv, from);
    }
}

void abort_report(struct rendezvous *rdv, struct scope *scope, struct cause cause,
                  const char *text, int32_t from)
{
    if (scope->state != SCOPE_OPEN || scope->abort_status != TRYST_OK ||
        list_linked(&scope->reported_node))
        return;
    scope->abort_rank = cause.origin_rank;
    scope->abort_from = from;
    scope->reported_status = cause.origin_status;
    snprintf(scope->abort_text, sizeof scope->abort_text, "%s", text);
    list_push_back(&rdv->scopes.reported, &scope->reported_node);
    engine_reap_soon(rdv);
}

void aborts_reported_run(struct rendezvous *rdv)
{
    struct list_node *node;
    while ((node = list_pop_front(&rdv->scopes.reported)) != NULL) {
        struct scope *scope = container_of(node, struct scope, reported_node);
        struct abort_note cause = {.step = scope->id,
                                   .time_ns = UINT64_MAX,
                                   .status = scope->reported_status,
                                   .rank = scope->abort_rank,
                                   .from = scope->abort_from};
        if (scope->abort_status != TRYST_OK)
            continue;
        snprintf(cause.text, sizeof cause.text, "%s", scope->abort_text);
        if (scope_abort(rdv, scope, &cause))
            causes_send(rdv, rdv->group->peers[cause.from]);
    }
}

void abort_read(struct peer *peer, const void *data, size_t bytes)
{
    struct link_abort abort;
    char text[ABORT_TEXT_BYTES];
    if (bytes < sizeof abort || peer->life >= PEER_GIVING_UP)
        return; /* nothing is passed on from a peer that is being given up */
    memcpy(&abort, data, sizeof abort);
    if (abort.text_bytes != bytes - sizeof abort || abort.status < 100 ||
        abort.origin_rank < 0 || abort.origin_rank >= peer->rdv->group->roster.size)
        return;
    text_escape((const char *)data + sizeof abort, abort.text_bytes, text, sizeof text);
    rendezvous_abort(peer->rdv, abort.step, abort.status, abort.origin_rank,
                     abort.time_ns, text, peer);
}
