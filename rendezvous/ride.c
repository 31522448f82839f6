/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DONEs that wait for a ride.
 *
 * Idea: the DONE of a small tensor as a frame of its own costs as much as the tensor's. So it waits
 * for the next frame to its peer, but only while the engine is busy: it leaves in the first pass
 * without an event, when eight have gathered, at a tick, and before our thread leaves the engine or
 * sleeps in it. Longer would save a ping-pong 0.15 µs, and would let a sender wait for a rank that
 * computes, or that waits for this very sender in another library.
 *
 * Invariant: a peer is in rdv->riding exactly when a DONE waits for it.
 * Callers: consumer.c, records.c, rendezvous.c.
 */
#include "engine.h"
#include "peer.h"

enum { RIDE_OPS_MAX = 8 };

void ride_open(struct ride *ride)
{
    list_init(&ride->ops);
}

void ride_board(struct peer *peer)
{
    struct ride *ride = &peer->ride;
    list_append(&peer->pending, &ride->ops);
    ride->count = 0;
    list_remove(&ride->node);
}

/** The DONEs leave in the next frame, which is due. */
static void ride_alone(struct peer *peer)
{
    ride_board(peer);
    peer_flush_later(peer);
}

void ride_add(tryst_op *op)
{
    struct peer *peer = op->peer;
    struct ride *ride = &peer->ride;
    op->marks |= MARK_DONE;
    list_push_back(&ride->ops, &op->pending_node);
    if (!list_linked(&ride->node))
        list_push_back(&op->rdv->riding, &ride->node);
    if (++ride->count >= RIDE_OPS_MAX)
        ride_alone(peer);
}

void ride_end(struct rendezvous *rdv)
{
    list_for_each_safe (&rdv->riding, node, after)
        ride_alone(container_of(node, struct peer, ride.node));
}
