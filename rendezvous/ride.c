/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DONEs that wait for a ride.
 *
 * Idea: the DONE of a small tensor is a frame of its own, and on the way of a request and its answer
 * it costs more than the answer. So it waits for the next frame to its peer, but never while
 * nothing happens: it leaves in the first pass without an event, when eight have gathered, and
 * before anybody sleeps. When a thread leaves the engine its DONEs leave first, unless this peer's
 * tensors have been answered promptly several times in a row: then they wait for the answer.
 * That is a bet. When it is lost, because the thread computes instead, the sender is told
 * only when the thread comes back; so after each lost bet twice as many prompt answers are asked
 * for (RIDE_NEED_MAX at most), and many good ones halve that again.
 *
 *              ride_leave, prompt >= need            ride_answered in time: prompt + 1
 *   owed ──┬─────────────────────────────▶ waits ──┬──────────────▶ rides
 *          │ ride_leave, prompt < need             └ else: leaves alone, need * 2, prompt 0
 *          └─────────────────────────────▶ leaves alone ── ride_answered in time: prompt + 1
 *
 * Invariant: a peer is in rdv->riding exactly when a DONE waits for it.
 * Callers: consumer.c, producer.c, records.c, rendezvous.c.
 */
#include "engine.h"
#include "peer.h"

enum { RIDE_OPS_MAX = 8, RIDE_NEED_MIN = 8, RIDE_NEED_MAX = 1 << 16, RIDE_GOOD = 256 };
/** What counts as prompt; the coarse clock moves in steps of 1 to 10 ms. */
#define RIDE_PROMPT_NS (2 * NS_PER_MS)

void ride_open(struct ride *ride)
{
    list_init(&ride->ops);
    ride->need = RIDE_NEED_MIN;
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

static bool ride_is_prompt(const struct ride *ride, uint64_t now_ns)
{
    return now_ns - ride->since_ns <= RIDE_PROMPT_NS;
}

/** The bet was lost. */
static void ride_lost(struct ride *ride)
{
    ride->prompt = 0;
    ride->need = ride->need < RIDE_NEED_MAX ? 2 * ride->need : RIDE_NEED_MAX;
}

void ride_answered(struct peer *peer, uint64_t now_ns)
{
    struct ride *ride = &peer->ride;
    if (!ride->waits && !ride->missed)
        return;
    if (ride_is_prompt(ride, now_ns)) {
        ride->prompt += ride->prompt < UINT32_MAX;
        if (ride->prompt % RIDE_GOOD == 0 && ride->need > RIDE_NEED_MIN)
            ride->need /= 2;
    } else if (ride->waits) {
        ride_lost(ride);
    } else {
        ride->prompt = 0;
    }
    ride->waits = ride->missed = false;
}

void ride_leave(struct rendezvous *rdv)
{
    list_for_each_safe (&rdv->riding, node, after) {
        struct peer *peer = container_of(node, struct peer, ride.node);
        struct ride *ride = &peer->ride;
        if (ride->waits)
            continue; /* already, since before */
        ride->since_ns = clock_coarse_ns(rdv->clock);
        ride->waits = ride->prompt >= ride->need;
        ride->missed = !ride->waits;
        if (ride->missed)
            ride_alone(peer);
    }
}

void ride_end(struct rendezvous *rdv)
{
    list_for_each_safe (&rdv->riding, node, after) {
        struct peer *peer = container_of(node, struct peer, ride.node);
        if (peer->ride.waits && !ride_is_prompt(&peer->ride, clock_coarse_ns(rdv->clock)))
            ride_lost(&peer->ride);
        peer->ride.waits = peer->ride.missed = false;
        ride_alone(peer);
    }
}
