/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DONEs that wait for a ride.
 *
 * Idea: the DONE of a small tensor as a frame of its own costs as much as the tensor's, and on the
 * way of a request and its answer more than the answer. So it waits for the next frame to its peer
 * while the engine is busy: it leaves in the first pass without an event, when eight have gathered,
 * and before anybody sleeps. When our thread leaves the engine it leaves first, unless this peer's
 * tensors have been answered promptly several times in a row: then it stays for the answer.
 * That is a bet. A thread that computes instead, or waits for this very peer in another library,
 * loses it; so a courier (commsched/courier.c) beats a clock, and at its second beat a DONE leaves
 * alone: nobody waits longer than two beats for what a bet holds back. After each lost bet twice as
 * many prompt answers are asked for (RIDE_NEED_MAX at most); many good ones halve that again.
 *
 *              leave, prompt >= need                answer: prompt + 1
 *   owed ──┬──────────────────────────▶ stays ──┬──────────────────────▶ rides
 *          │                                    └──────────────────────▶ leaves alone
 *          │ leave, prompt < need                 second beat, or a pass without an event,
 *          │                                      or sleep: need * 2, prompt 0
 *          └──────────────────────────▶ leaves alone ── answer in time: prompt + 1, else prompt 0
 *
 * The beat counts passes of a busy engine too (each PASSES_PER_CLOCK), so that a peer whose DONE
 * waits while others keep the engine from any idle pass is served as well.
 *
 * Invariants: a peer is in rdv->riding exactly when a DONE waits for it. While a DONE stays behind a
 * thread that has left, rdv->courier_is_called.
 * Callers: consumer.c, producer.c, records.c, rendezvous.c.
 */
#include "engine.h"
#include "peer.h"

enum { RIDE_OPS_MAX = 8, RIDE_NEED_MIN = 8, RIDE_NEED_MAX = 1 << 16, RIDE_GOOD = 256 };
/** Beats that a DONE waits at most, and beats with nothing to do after which the courier rests. */
enum { RIDE_BEATS_MAX = 2, COURIER_BEATS_IDLE = 50 };
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
    ride->stays = false;
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
    if (!list_linked(&ride->node)) {
        list_push_back(&op->rdv->riding, &ride->node);
        ride->beat = op->rdv->beats;
    }
    if (++ride->count >= RIDE_OPS_MAX)
        ride_alone(peer);
}

/* ---- bets --------------------------------------------------------------------------------- */

void ride_answered(struct peer *peer)
{
    struct ride *ride = &peer->ride;
    if (ride->stays) {
        ride->stays = false;
        ride->prompt++;
        if (ride->prompt % RIDE_GOOD == 0 && ride->need > RIDE_NEED_MIN)
            ride->need /= 2;
    } else if (ride->left) {
        uint64_t since_ns =
            clock_since_ns(ride->left_ns, clock_coarse_ns(peer->rdv->clock));
        ride->prompt = since_ns <= RIDE_PROMPT_NS ? ride->prompt + 1 : 0;
    }
    ride->left = false;
}

static void ride_lost(struct ride *ride)
{
    ride->prompt = 0;
    ride->need = ride->need < RIDE_NEED_MAX ? 2 * ride->need : RIDE_NEED_MAX;
}

/** No answer has come by now. */
static void ride_no_more(struct peer *peer)
{
    if (peer->ride.stays)
        ride_lost(&peer->ride);
    ride_alone(peer);
}

void ride_end(struct rendezvous *rdv)
{
    list_for_each_safe (&rdv->riding, node, after)
        ride_no_more(container_of(node, struct peer, ride.node));
}

/** Is there, or can there be, a courier? */
static bool courier_comes(struct rendezvous *rdv)
{
    if (!rdv->courier_is_called && rdv->courier_call)
        rdv->courier_is_called = rdv->courier_call(rdv->owner);
    return rdv->courier_is_called;
}

void ride_leave(struct rendezvous *rdv)
{
    list_for_each_safe (&rdv->riding, node, after) {
        struct peer *peer = container_of(node, struct peer, ride.node);
        struct ride *ride = &peer->ride;
        if (ride->stays)
            continue; /* already, since before */
        ride->stays = ride->prompt >= ride->need && courier_comes(rdv);
        ride->left = !ride->stays;
        if (ride->left) {
            ride->left_ns = clock_coarse_ns(rdv->clock);
            ride_alone(peer);
        }
    }
}

void ride_beat(struct rendezvous *rdv)
{
    rdv->beats++;
    list_for_each_safe (&rdv->riding, node, after) {
        struct peer *peer = container_of(node, struct peer, ride.node);
        if (rdv->beats - peer->ride.beat >= RIDE_BEATS_MAX)
            ride_no_more(peer);
    }
}

bool ride_courier(struct rendezvous *rdv)
{
    rdv->courier_idle = list_empty(&rdv->riding) ? rdv->courier_idle + 1 : 0;
    ride_beat(rdv);
    if (rdv->courier_idle < COURIER_BEATS_IDLE)
        return true;
    rdv->courier_idle = 0;
    rdv->courier_is_called = false;
    return false;
}
