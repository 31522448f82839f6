/* SPDX-License-Identifier: Apache-2.0 */
/* Counters that must be zero, or equal at both ends, when no operation is left: a counter
 * that drifts makes a long run fail, not a short test. */
#include "world.h"

/* The two ranks of the comparison, for the text of a failure. */
static int at, of;

static void equal_check(const char *name, uint64_t value, uint64_t wanted)
{
    if (value != wanted)
        fail_msg("rank %d, of rank %d: %s is %llu, not %llu", at, of, name,
                 (unsigned long long)value, (unsigned long long)wanted);
}

#define EQUAL(value, wanted) equal_check(#value, (uint64_t)(value), (uint64_t)(wanted))
#define ZERO(value)          EQUAL(value, 0)

static void queues_check(const struct peer *peer)
{
    const struct peer_out *out = peer_out(peer);
    const struct peer_in *in = peer_in(peer);
    ZERO(!urgent_empty(&out->pending));
    ZERO(!urgent_empty(&out->wants_waiting));
    ZERO(!urgent_empty(&out->deferred_ops));
    ZERO(!urgent_empty(&out->posted_sends));
    ZERO(!urgent_empty(&out->blocked_sends));
    ZERO(!list_empty(&out->waiting_sends));
    ZERO(!list_empty(&out->want_answers));
    ZERO(!urgent_empty(&in->unannounced));
    ZERO(!urgent_empty(&in->slots_waiting));
    ZERO(!list_empty(&in->wants_list));
    ZERO(!list_empty(&in->unexpected));
}

/* Check what only operations and records between the two ranks occupy. */
static void peer_check(const struct peer *peer)
{
    const struct sched_lane *lane = &peer->lane;
    ZERO(peer_in(peer)->slots_ahead);
    ZERO(peer_in(peer)->slots_ready);
    ZERO(peer_in(peer)->ready_bytes);
    ZERO(peer_in(peer)->parked_count);
    ZERO(peer_in(peer)->early_wants);
    ZERO(peer_in(peer)->wants.count);
    ZERO(peer_in(peer)->unexpected_bytes);
    ZERO(peer_in(peer)->closed_count);
    ZERO(peer_out(peer)->eager_used);
    ZERO(peer_out(peer)->failures_count);
    ZERO(peer_out(peer)->answers_count);
    ZERO(lane->in_flight_bytes);
    ZERO(lane->stalled);
    ZERO(list_linked(&lane->busy));
    for (int kind = 0; kind < URGENCY_CLASSES; kind++)
        ZERO(urgent_queued(&lane->nodes[kind]));
    queues_check(peer);
}

/* Check what both ends count, when all records have come. */
static void ends_check(const struct peer *peer, const struct peer *other)
{
    EQUAL(other->frames.read, peer->frames.sent);
    EQUAL(peer_in(other)->wants_got, peer_out(peer)->wants_sent);
    ZERO(peer_in(other)->wants_refused);
    EQUAL(peer_in(other)->stream.got, peer_out(peer)->stream.next);
    EQUAL(peer_in(other)->stream.base, peer_out(peer)->stream.next);
    EQUAL(peer_out(peer)->stream.acked, peer_out(peer)->stream.next);
    ZERO(peer_in(other)->unacked);
}

static bool scope_has_peer(const struct list *ops, const struct peer *peer)
{
    list_for_each_safe (ops, node, after)
        if (container_of(node, tryst_op, scope_node)->peer == peer)
            return true;
    return false;
}

/* Return the number of steps with an abort from the peer that are not open here. */
static uint64_t aborts_count(const struct peer *peer)
{
    uint64_t count = 0;
    list_for_each_safe (&peer->rdv->scopes.early, node, after)
        count += container_of(node, struct scope, early_node)->early_from == peer->rank;
    return count;
}

/* True if frames reach the peer, and no operation with it is left. */
static bool peer_is_idle(const struct peer *peer)
{
    if (!peer || peer->life != PEER_ALIVE || peer->endpoint.state != PEER_EP_READY ||
        peer->endpoint.broken)
        return false;
    list_for_each_safe (&peer->rdv->scopes.all, node, after) {
        const struct scope *scope = container_of(node, struct scope, node);
        if (scope_has_peer(&scope->ops, peer) || scope_has_peer(&scope->warned, peer))
            return false;
    }
    return true;
}

void world_counters_check_idle(const struct world *world)
{
    for (at = 0; at < world->size; at++) {
        for (of = 0; of < world->size && !world->forged && !world->spoilt; of++) {
            const struct peer *peer = world->sides[at].group.peers[of];
            const struct peer *other = world->sides[of].group.peers[at];
            if (!peer_is_idle(peer) || !peer_is_idle(other))
                continue;
            peer_check(peer);
            ends_check(peer, other);
            EQUAL(peer->early_aborts + peer->passed_aborts, aborts_count(peer));
        }
    }
}

static void engine_check(const struct rendezvous *rdv)
{
    of = at;
    ZERO(rdv->bulk.moving);
    ZERO(rdv->ids.table.count);
    ZERO(rdv->deadlines.count);
    ZERO(rdv->scopes.open);
    ZERO(!list_empty(&rdv->completed));
    ZERO(!list_empty(&rdv->flush));
    ZERO(!list_empty(&rdv->hello_links));
    ZERO(!list_empty(&rdv->device_loads));
    for (uint32_t i = 0; i < rdv->rails_count; i++)
        ZERO(rdv->rails[i].senders);
}

void world_counters_check_end(const struct world *world)
{
    for (at = 0; at < world->size && !world->spoilt; at++) {
        const struct side *side = &world->sides[at];
        for (of = 0; of < world->size; of++)
            if (side->group.peers[of])
                peer_check(side->group.peers[of]);
        engine_check(side->rdv);
        ZERO(side->in_flight_bytes);
        ZERO(side->posted_now);
        ZERO(!list_empty(&side->eps));
    }
}
