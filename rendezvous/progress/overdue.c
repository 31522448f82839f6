/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations that take long; see overdue.h.
 */
#include "overdue.h"

#include <inttypes.h>
#include <stdio.h>

#include "rendezvous/op/deadline.h"
#include "rendezvous/op/engine.h"
#include "rendezvous/peer/endpoint.h"
#include "rendezvous/peer/loss.h"
#include "rendezvous/peer/peer.h"
#include "rendezvous/protocol/op_device.h"
#include "rendezvous/protocol/producer.h"
#include "rendezvous/protocol/recv_run.h"
#include "rendezvous/protocol/send_run.h"

/* Stalled operations of a step that one pass names: the oldest ones, which the others may
 * wait for. */
#define STALLS_NAMED_MAX 3

static const char *bulk_waits_for(const tryst_op *op)
{
    static const char *const texts[] = {
        [HOLD_NONE] = "the consumer to take the bytes",
        [HOLD_UNPOSTED] = "the consumer to post room for more of its bytes",
        [HOLD_BEHIND] = "its turn, behind another send",
        [HOLD_WINDOW] =
            "the consumer to take bytes that are in flight: its window is full",
        [HOLD_RAIL] =
            "bytes that are in flight to other peers: the rail's window is full",
        [HOLD_TRANSPORT] = "room in the transport",
        [HOLD_UNREADY] = "more of its bytes, which this rank has not summed yet"};
    const tryst_op *before;
    return texts[send_run_held_by(op, &before)];
}

static const char *op_waits_for(const tryst_op *op)
{
    const struct peer *peer = op->peer;
    if (op->kind == OP_STEP_CLOSE)
        return "the step's operations";
    if (op->kind == OP_COLL)
        return "the other ranks of its group";
    if (flow_is_held(op))
        return "its bytes, which this rank has not summed yet";
    if (op->device && op->device->doing == DEVICE_LOADS)
        return "the start of its device's driver";
    if (op_device_is_held(op))
        return "its ready event, on the device";
    if (op_device_is_copying(op))
        return "a copy to or from the device";
    if (peer && peer->endpoint.state == PEER_EP_STARTING)
        return "the start of a fabric (its library is being opened)";
    if (peer && peer->endpoint.state != PEER_EP_READY)
        return "a connection to the peer";
    if (op->kind == OP_SEND)
        return op->state == OP_POSTED   ? "the receive: the consumer has not posted it"
               : op->state == OP_INLINE ? "the consumer's answer"
                                        : bulk_waits_for(op);
    return op->run && op->done_upto ? "the rest of the bytes"
                                    : "the send: the producer has not posted it";
}

static const char *op_noun(const tryst_op *op)
{
    switch (op->kind) {
    case OP_SEND: return op->flow ? "flow's send" : "send";
    case OP_RECV: return op->flow ? "flow's receive" : "receive";
    case OP_COLL: return "collective";
    default: return "close";
    }
}

enum { PATH_TEXT_BYTES = PEER_LOSS_TEXT_MAX + PEER_REACH_TEXT_BYTES };

/* Describe the path to a peer as far as something is wrong with it: a connection that is
 * not there yet, packets that are lost. Begins with "; ", or is empty. */
static void path_text(const struct peer *peer, char text[PATH_TEXT_BYTES])
{
    char loss[PEER_LOSS_TEXT_MAX] = "", reach[PEER_REACH_TEXT_BYTES];
    peer_reach_text(peer, reach);
    peer_loss_text(peer, "; ", loss, sizeof loss);
    snprintf(text, PATH_TEXT_BYTES, "%s%s", reach, loss);
}

/* Name the rank that the operation waits for, as far as it is known, and what is wrong
 * with the path to it. */
static void peer_text(const tryst_op *op, char *text, size_t capacity)
{
    const struct coll_calls *calls = &op->rdv->coll_calls;
    const struct peer *peer = op->peer;
    char path[PATH_TEXT_BYTES] = "";
    bool asks = op->kind == OP_COLL && calls->waits_for;
    int32_t first = asks ? calls->waits_for(calls->arg, op) : -1;
    if (!peer && first >= 0)
        peer = op->rdv->group->peers[first];
    if (peer)
        path_text(peer, path);
    text[0] = '\0';
    if (op->peer)
        snprintf(text, capacity, "; peer: rank %d%s", op->peer->rank, path);
    else if (first >= 0)
        snprintf(text, capacity, "; first of them: rank %d%s", first, path);
}

void op_describe(const tryst_op *op, uint64_t now_ns, char *text, size_t capacity)
{
    double since = (double)clock_since_ns(op->submitted_ns, now_ns) / 1e9;
    char peer[PATH_TEXT_BYTES + 64];
    peer_text(op, peer, sizeof peer);
    snprintf(text, capacity,
             "%s of %s (step %" PRIu64 ", number %" PRIu64 ", %" PRIu64
             " bytes, %s) has waited %.3f s for %s%s",
             op_noun(op), op->key ? op->key->string : "a step", op->step_id,
             op->queued.seq, op->bytes, op_state_name(op), since, op_waits_for(op), peer);
}

int deadlines_run(struct rendezvous *rdv, uint64_t now_ns)
{
    int count = 0;
    tryst_op *op;
    while ((op = deadline_pop(rdv, now_ns)) != NULL) {
        char text[PATH_TEXT_BYTES + 256], path[PATH_TEXT_BYTES] = "";
        double since = (double)clock_since_ns(op->submitted_ns, now_ns) / 1e9;
        if (op->peer)
            path_text(op->peer, path);
        snprintf(text, sizeof text,
                 "its deadline passed: it has waited %.3f s for %s (number %" PRIu64
                 ", %" PRIu64 " bytes, %s)%s",
                 since, op_waits_for(op), op->queued.seq, op->bytes, op_state_name(op),
                 path);
        op_fail(op, TRYST_E_DEADLINE, text);
        count++;
    }
    return count;
}

/* Return the next operation of the scope that has stalled, which counts as warned from
 * now on; NULL: none. */
static tryst_op *stall_next(struct rendezvous *rdv, struct scope *scope, uint64_t now_ns)
{
    struct list_node *node;
    while ((node = list_first(&scope->ops)) != NULL) {
        tryst_op *op = container_of(node, tryst_op, scope_node);
        if (clock_since_ns(op->submitted_ns, now_ns) < rdv->set.stall_warn_ns)
            return NULL;
        list_remove(node);
        list_push_back(&scope->warned, node);
        if (!op->reported && !op->flow) /* the warning names the flow's collective */
            return op;
    }
    return NULL;
}

static void stall_warn(struct rendezvous *rdv, struct scope *scope, uint64_t now_ns)
{
    tryst_op *op;
    unsigned count = 0;
    while ((op = stall_next(rdv, scope, now_ns)) != NULL) {
        char text[OP_TEXT_MAX];
        if (count++ >= STALLS_NAMED_MAX)
            continue;
        op_describe(op, now_ns, text, sizeof text);
        LOG_WARN(rdv->log, "stalled: %s", text);
    }
    if (count > STALLS_NAMED_MAX)
        LOG_WARN(rdv->log,
                 "stalled: %u more operation%s of step %" PRIu64
                 ", too (tryst-info --live lists all)",
                 count - STALLS_NAMED_MAX, count - STALLS_NAMED_MAX == 1 ? "" : "s",
                 scope->id);
}

void stalls_warn(struct rendezvous *rdv, uint64_t now_ns)
{
    if (!rdv->set.stall_warn_ns)
        return;
    list_for_each_safe (&rdv->scopes.all, node, after)
        stall_warn(rdv, container_of(node, struct scope, node), now_ns);
}
