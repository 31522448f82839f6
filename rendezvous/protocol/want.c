/* SPDX-License-Identifier: Apache-2.0 */
/*
 * WANTs of peers at their producer; see want.h.
 *
 * Invariant: every want is in channel->in.wants_list and, until its id has ended, in
 * channel->in.wants by this id.
 */
#include "want.h"

#include "core/text/hash.h"

void want_settle(struct want *want)
{
    if (want->early)
        peer_in(want->peer)->early_wants--;
    want->early = false;
}

void want_unpark(struct want *want)
{
    if (parked_remove(&want->parked))
        peer_in(want->peer)->parked_count--;
    want_settle(want);
}

struct want *want_by_id(const struct peer *peer, uint64_t id)
{
    struct hash_node *node = hash_table_find(&peer_in(peer)->wants, hash_keyed_id(id));
    return node ? container_of(node, struct want, by_id) : NULL;
}

void want_id_end(struct want *want)
{
    if (!want->id_ended)
        hash_table_remove(&peer_in(want->peer)->wants, &want->by_id);
    want->id_ended = true;
}

void want_free(struct want *want)
{
    struct peer *peer = want->peer;
    want_unpark(want);
    list_remove(&want->answer_node);
    list_remove(&want->peer_node);
    want_id_end(want);
    peer_text_drop(peer, want->text);
    pool_put(peer->rdv->wants, want);
}

void want_maybe_free(struct want *want)
{
    if (!want->send && !want->in_flight && !list_linked(&want->answer_node) &&
        !list_linked(&want->parked.node))
        want_free(want);
}

void want_text_set(struct want *want, struct wire_text peer_text)
{
    peer_text_drop(want->peer, want->text);
    want->text = peer_text_keep(want->peer, peer_text);
}

void want_answer(struct want *want, uint8_t type, struct cause cause, const char *text)
{
    if (want->id_ended || list_linked(&want->answer_node))
        return;
    want->answer_type = type;
    want->cause = cause;
    if (text && *text)
        want_text_set(want, peer_text_of(text));
    list_push_back(&peer_out(want->peer)->want_answers, &want->answer_node);
    peer_flush_later(want->peer);
}

void want_answered(struct want *want)
{
    list_remove(&want->answer_node);
    want_id_end(want);
    want_maybe_free(want);
}
