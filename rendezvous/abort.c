/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Aborts, told from rank to rank.
 *
 * Idea: an abort floods over every link that is up. For links that come up later it is read off the
 * step while that is open, and off a note when it has been closed; a rank that has no use for an abort
 * any more passes it on along the control tree all the same.
 * Invariants: one note for a step, with the earliest cause (origin time, rank) that was heard of; the
 * notes are those of the newest steps. What is no news is not passed on, so nothing goes round for ever.
 * Callers: step.c (an abort, a refusal), the link (it came up), the end of a step.
 */
#include <stdio.h>
#include <string.h>

#include "engine.h"
#include "peer.h"

static void note_send(struct peer *peer, const struct abort_note *note)
{
    if (peer->link && peer->link_state == PEER_LINK_UP)
        (void)link_send(peer->link, LINK_ABORT, note,
                        sizeof note->head + note->head.text_bytes, -1);
}

static void note_make(const struct scope *scope, struct abort_note *note)
{
    size_t text_bytes = strlen(scope->abort_text);
    note->head = (struct link_abort){.step = scope->id,
                                     .time_ns = scope->abort_time_ns,
                                     .status = scope->abort_status,
                                     .origin_rank = scope->abort_rank,
                                     .text_bytes = (uint32_t)text_bytes};
    memcpy(note->text, scope->abort_text, text_bytes);
}

/* ---- notes -------------------------------------------------------------------------------- */

bool abort_is_earlier(uint64_t time_ns, int32_t rank, uint64_t than_ns, int32_t than_rank)
{
    return time_ns < than_ns || (time_ns == than_ns && rank < than_rank);
}

const struct link_abort *abort_note_find(const struct rendezvous *rdv, uint64_t step)
{
    for (uint32_t i = 0; i < rdv->aborts_count; i++)
        if (rdv->aborts[i].head.step == step)
            return &rdv->aborts[i].head;
    return NULL;
}

/** Where a note of `step` goes: over the one that it has, a free place, or that of the oldest step.
 *  NULL: all that are kept are of newer steps. */
static struct abort_note *note_place(struct rendezvous *rdv, uint64_t step)
{
    struct abort_note *oldest = &rdv->aborts[0];
    for (uint32_t i = 0; i < rdv->aborts_count; i++) {
        struct abort_note *note = &rdv->aborts[i];
        if (note->head.step == step)
            return note;
        if (note->head.step < oldest->head.step)
            oldest = note;
    }
    if (rdv->aborts_count < ABORT_NOTES)
        return &rdv->aborts[rdv->aborts_count++];
    return oldest->head.step < step ? oldest : NULL;
}

/** True when it is news, and kept. */
static bool note_keep(struct rendezvous *rdv, const struct abort_note *note)
{
    const struct link_abort *known = abort_note_find(rdv, note->head.step);
    if (known && !abort_is_earlier(note->head.time_ns, note->head.origin_rank,
                                   known->time_ns, known->origin_rank))
        return false;
    struct abort_note *place = note_place(rdv, note->head.step);
    if (place)
        *place = *note;
    return place != NULL;
}

void abort_note_scope(struct rendezvous *rdv, const struct scope *scope)
{
    struct abort_note note;
    if (scope->abort_status == TRYST_OK)
        return;
    memset(&note, 0, sizeof note);
    note_make(scope, &note);
    (void)note_keep(rdv, &note);
}

void abort_note_take(struct rendezvous *rdv, struct scope *scope)
{
    const struct link_abort *head = abort_note_find(rdv, scope->id);
    char text[sizeof scope->abort_text];
    if (!head)
        return;
    const struct abort_note *note = container_of(head, struct abort_note, head);
    snprintf(text, sizeof text, "%.*s", (int)head->text_bytes, note->text);
    (void)scope_abort(scope, head->status, head->origin_rank, head->time_ns, text);
}

/* ---- telling ------------------------------------------------------------------------------ */

void abort_send(struct peer *peer, const struct scope *scope)
{
    struct abort_note note;
    note_make(scope, &note);
    note_send(peer, &note);
}

void abort_send_all(struct peer *peer)
{
    struct rendezvous *rdv = peer->rdv;
    list_for_each_safe (&rdv->scopes.all, node, after) {
        struct scope *scope = container_of(node, struct scope, node);
        if (scope->abort_status != TRYST_OK)
            abort_send(peer, scope);
    }
    for (uint32_t i = 0; i < rdv->aborts_count; i++)
        note_send(peer, &rdv->aborts[i]);
}

void abort_pass_on(struct rendezvous *rdv, const struct link_abort *head,
                   const char *text, const struct peer *from)
{
    const struct tryst_group *group = rdv->group;
    struct abort_note note = {.head = *head};
    note.head.text_bytes = (uint32_t)strnlen(text, sizeof note.text);
    memcpy(note.text, text, note.head.text_bytes);
    if (!note_keep(rdv, &note))
        return; /* all behind us know, or it is too old to matter */
    for (int i = 0; i < group->roster.size; i++)
        if (&group->peers[i] != from &&
            peer_tree_neighbours(group, group->roster.rank, i))
            note_send(&group->peers[i], &note);
}
