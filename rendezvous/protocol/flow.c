/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flows; see flow.h.
 *
 * Idea: a flow is an ordinary operation with op->flow. The producer's and the consumer's
 * files move it like every other one, and call this file where a flow differs: its slices
 * have no bytes yet, or no memory.
 *
 * Invariant: op->flow and flow->op point at each other from flow_send or flow_recv until
 * the operation is reported, and the report calls `ended`.
 */
#include "flow.h"
#include "commsched/sched/sched.h"

#include <string.h>

#include "consumer.h"
#include "producer.h"
#include "recv_run.h"
#include "rendezvous/match/table.h"
#include "rendezvous/op/dtype.h"
#include "rendezvous/peer/group.h"
#include "rendezvous/peer/peer.h"
#include "rendezvous/protocol/outcome/cause.h"
#include "send_run.h"
#include "want.h"

static_assert(FLOW_PIECE_BYTES <= TRANSPORT_PIECE_BYTES, "one bulk_read");

/* ---- start ------------------------------------------------------------------------- */

/* End a flow that cannot start (op_refusal). True if it has ended. */
static bool flow_refused(struct flow *flow, const struct scope *scope,
                         const struct peer *peer)
{
    const char *text;
    struct cause cause = op_refusal(scope, peer, &text);
    if (cause.status == TRYST_OK)
        return false;
    flow->ops->ended(flow, cause, text);
    return true;
}

/* Count the slices of the flow. False: there are too many, or its memory is not host
 * memory. */
static bool flow_cut(struct flow *flow, const tryst_tensor *tensor)
{
    uint64_t bytes = tensor->count * dtype_bytes(tensor->dtype);
    uint64_t slices = (bytes + flow->slice_bytes - 1) / flow->slice_bytes;
    assert(flow->slice_bytes >= SLICE_BYTES_MIN);
    if (slices > UINT32_MAX / 2 || tensor->memory != TRYST_MEMORY_HOST)
        return false;
    flow->slices = slices ? (uint32_t)slices : 1;
    return true;
}

/* Set the urgency and the flags as the submission of a user does. */
static void op_urgency_put(tryst_op *op, const struct urgency *urgency)
{
    op->urgency = *urgency;
    if (!op->rdv->set.urgency_mask)
        return; /* first come, first served */
    op_priority_set(op, urgency_class(urgency), urgency_priority(urgency));
}

/* Put the flow's operation into its step. The operation has no handle: the protocol
 * alone holds it. */
__attribute__((always_inline)) static inline void op_fill(
    tryst_op *op, const struct flow *flow, const struct flow_params *params)
{
    op_key_set(op, params->key);
    op->step_id = params->step_id;
    op_tensor_set(op, params->tensor,
                  params->tensor->count * dtype_bytes(params->tensor->dtype));
    op_urgency_put(op, &params->urgency);
    op->shape = flow->shape;
    op->shaped = true;
    op_scope_enter(op, params->scope, rendezvous_now(op->rdv));
    op_unref(op);
}

/* Give the next flow of the entry this number. */
__attribute__((noinline)) static void number_skip_to(tryst_op *op, uint64_t number)
{
    struct entry *entry = op->entry;
    assert(number >= (op->kind == OP_SEND ? entry->send_next : entry->recv_next));
    entry->is_sparse = true;
    if (op->kind == OP_SEND)
        entry->send_next = number;
    else
        consumer_skip_to(entry, number);
}

/* Open the operation of a flow. *op_p NULL with TRYST_OK: the flow has ended. */
static tryst_status flow_start(struct rendezvous *rdv, enum op_kind kind,
                               struct flow *flow, const struct flow_params *params,
                               tryst_op **op_p)
{
    const tryst_key *key = params->key;
    *op_p = NULL;
    flow->op = NULL;
    flow->late.status = TRYST_OK;
    if (!flow_cut(flow, params->tensor))
        return TRYST_E_UNSUPPORTED;
    struct peer *peer =
        peer_get(rdv->group, kind == OP_SEND ? key->dst_rank : key->src_rank);
    if (!peer)
        return TRYST_E_NOMEM;
    if (flow_refused(flow, params->scope, peer))
        return TRYST_OK;
    struct entry *entry = entry_get(params->scope, params->key);
    tryst_op *op = entry ? op_open(rdv, kind) : NULL;
    if (!op)
        return TRYST_E_NOMEM;
    op->peer = peer;
    op_entry_set(op, entry);
    op_fill(op, flow, params);
    op->flow = flow;
    flow->op = op;
    if (params->number)
        number_skip_to(op, *params->number);
    flow->number = kind == OP_SEND ? entry->send_next : entry->recv_next;
    *op_p = op;
    return TRYST_OK;
}

tryst_status flow_send(struct rendezvous *rdv, struct flow *flow,
                       const struct flow_params *params)
{
    tryst_op *op;
    tryst_status status = flow_start(rdv, OP_SEND, flow, params, &op);
    if (!op)
        return status;
    if (!flow->ready && op->bytes <= rdv->set.eager_max_bytes)
        producer_submit_held(op);
    else if (producer_submit(op))
        records_queue(op, QUEUED_DATA);
    return TRYST_OK;
}

tryst_status flow_recv(struct rendezvous *rdv, struct flow *flow,
                       const struct flow_params *params)
{
    tryst_op *op;
    flow->slices_announced = 0;
    tryst_status status = flow_start(rdv, OP_RECV, flow, params, &op);
    if (op)
        consumer_submit(op);
    return status;
}

/* ---- send -------------------------------------------------------------------------- */

void flow_ready(struct flow *flow, uint32_t ready)
{
    tryst_op *op = flow->op;
    assert(ready >= flow->ready && ready <= flow->slices);
    if (!op || ready == flow->ready)
        return;
    bool held = flow_is_held(op);
    flow->ready = ready;
    if (held) {
        list_remove(&op->waiting_node);
        producer_release(op);
    } else if (op->state == OP_MATCHED) {
        struct rendezvous *rdv = op->rdv;
        send_run_ready(op);
        sched_posted(rdv->sched, &op->want->transfer);
    }
}

void flow_raise(struct flow *flow, int32_t priority)
{
    tryst_op *op = flow->op;
    if (!op)
        return;
    op_priority_set(op, URGENCY_TRAINING, priority);
    op->rdv->op_events->raise(op, urgency_sort_key(URGENCY_TRAINING, priority) &
                                      op->rdv->set.urgency_mask);
}

void flow_fail_late(struct rendezvous *rdv, const struct flow *flow,
                    const struct flow_params *params, struct cause cause,
                    const char *text)
{
    struct peer *peer = peer_get(rdv->group, params->key->dst_rank);
    struct entry *entry = entry_known(params->scope, params->key);
    bool is_gone = !peer || peer->life >= PEER_GIVING_UP;
    tryst_op *op = is_gone || !entry ? NULL : op_open(rdv, OP_SEND);
    if (!op)
        return;
    op->peer = peer;
    op_entry_set(op, entry);
    op->queued.seq = flow->number;
    op_fill(op, flow, params);
    producer_fail_late(op, cause, text);
}

tryst_status flow_count(struct scope *scope, tryst_key *key, uint64_t *number_p)
{
    struct entry *entry = entry_get(scope, key);
    if (!entry)
        return TRYST_E_NOMEM;
    *number_p = entry->send_next++;
    return TRYST_OK;
}

/* ---- receive ----------------------------------------------------------------------- */

void flow_place_again(struct flow *flow)
{
    tryst_op *op = flow->op;
    if (op && op->state == OP_WANTED && op->run)
        recv_run_serve(op);
}

bool flow_may_borrow(const struct flow *flow)
{
    return flow->op && recv_may_borrow(flow->op);
}

tryst_status flow_read(struct flow *flow, uint32_t index, uint64_t at, uint64_t bytes,
                       flow_use use, void *arg)
{
    struct recv_slice *slice = recv_run_borrowed(flow->op, index);
    if (!slice)
        return TRYST_AGAIN;
    struct endpoint *ep = flow->op->peer->endpoint.ep;
    tryst_status status = ep->rail->ops->bulk_read(ep, &slice->bulk, at, bytes, use, arg);
    slice->borrowed = status == TRYST_OK;
    return status == TRYST_OK ? TRYST_OK : TRYST_AGAIN;
}

tryst_status flow_return(struct flow *flow, uint32_t index)
{
    struct recv_slice *slice = recv_run_borrowed(flow->op, index);
    if (!slice)
        return TRYST_AGAIN;
    struct endpoint *ep = flow->op->peer->endpoint.ep;
    if (ep->rail->ops->bulk_return(ep, &slice->bulk) != TRYST_OK) {
        slice->borrowed = false;
        return TRYST_AGAIN;
    }
    consumer_slice_returned(slice);
    return TRYST_OK;
}

/* ---- evidence of the other end ----------------------------------------------------- */

static bool send_has_met(const tryst_op *op)
{
    switch (op->state) {
    case OP_POSTED: return want_find(op->entry, op->queued.seq) != NULL;
    case OP_INLINE: return !op->eager; /* the DATA answers a WANT */
    default: return true;
    }
}

static bool recv_has_met(const tryst_op *op)
{
    bool waits = op->state == OP_POSTED || op->state == OP_WANTED ||
                 op->state == OP_DEFERRED || op->state == OP_VOID;
    return !waits || op->flow->slices_announced;
}

enum flow_sight flow_sight(const struct flow *flow)
{
    const tryst_op *op = flow->op;
    if (!op || (op->kind == OP_SEND ? send_has_met(op) : recv_has_met(op)))
        return FLOW_MET;
    const struct peer_endpoint *endpoint = &op->peer->endpoint;
    if (endpoint->state == PEER_EP_STARTING)
        return FLOW_STARTS_HERE;
    if (endpoint->state == PEER_EP_READY)
        return FLOW_SILENT;
    return endpoint->peer_starts ? FLOW_STARTS_THERE : FLOW_UNCONNECTED;
}

/* ---- end --------------------------------------------------------------------------- */

void flow_fail(struct flow *flow, struct cause cause, const char *text)
{
    if (flow->op)
        op_fail_from(flow->op, cause, text);
}

/* End the flow of an operation. If the operation was failing, but all its bytes came, the
 * flow ends with the failure: `arrived` or `take` was not called for the last of them. */
void flow_op_ended(tryst_op *op)
{
    struct flow *flow = op->flow;
    bool late = op->final == TRYST_OK && flow->late.status != TRYST_OK;
    struct cause cause = {op->final, op->origin_rank, op->origin_status};
    op->flow = NULL;
    flow->op = NULL;
    flow->ops->ended(flow, late ? flow->late : cause, op->text);
}
