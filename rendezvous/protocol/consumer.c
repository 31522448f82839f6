/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The consuming side: receives are announced and take the bytes that come.
 *
 * Idea: the receiver initiates. A receive leaves as a WANT that names it (id, and id + i
 * for slice i), with a bounded run of slices posted before the WANT leaves. The bytes
 * come as DATA or as bulk. Slices are reposted as they arrive, and DONE reports the
 * progress.
 *
 * Invariants: a buffer is reported free only when no receive is posted in it. An
 * announced id ends exactly once: by its bulk, DATA, CANCELED, CLOSED, DEFERRED, or an
 * OFFER of the shape.
 */
#include <assert.h>
#include <string.h>

#include "consumer.h"
#include "core/memory/alloc.h"
#include "core/text/hash.h"
#include "core/text/status.h"
#include "eager.h"
#include "op_device.h"
#include "recv_run.h"
#include "rendezvous/op/dtype.h"
#include "rendezvous/op/engine.h"
#include "rendezvous/peer/endpoint.h"
#include "rendezvous/peer/fault.h"
#include "rendezvous/protocol/outcome/cause.h"
#include "rendezvous/protocol/outcome/shape.h"
#include "rendezvous/protocol/wire/wire_decode.h"

/* The most deferred receives that are announced again at each tick: their producer may
 * have closed the step. */
enum { REANNOUNCED = 16 };

/* ---- ends -------------------------------------------------------------------------- */

/* True if the receive has an id, and its WANT has not left yet. */
static bool want_is_packed_next(const tryst_op *op)
{
    return op->id && op->records & QUEUED_WANT;
}

/* End the id of the receive here. */
static void id_drop(tryst_op *op)
{
    if (op->id)
        hash_table_remove(&op->rdv->ids.table, &op->by_id);
    op->id = 0;
}

/* Return the quota of a WANT that will not leave. */
static inline void want_withdraw(tryst_op *op)
{
    if (want_is_packed_next(op))
        peer_out(op->peer)->wants_sent--;
}

static inline void records_clear(tryst_op *op)
{
    want_withdraw(op);
    op->records = 0;
    urgent_remove(&op->pending_node);
}

/* Queue the receive to be announced within the WANT quota. */
static void want_queue(tryst_op *op)
{
    assert(!op->id && !(op->records & ~QUEUED_WANT));
    op->records |= QUEUED_WANT;
    if (!urgent_queued(&op->pending_node))
        urgent_push(&peer_out(op->peer)->wants_waiting, &op->pending_node, &op->urgency);
    peer_flush_later(op->peer);
}

/* Report the receive, and end it unless DONE is queued. */
static void recv_finish(tryst_op *op, struct cause cause)
{
    op_report(op, cause.status, cause.origin_rank, cause.origin_status, op->text);
    if (op->records & QUEUED_DONE)
        op_state_set(op, OP_TAKEN);
    else
        op_end(op);
}

/* Finish a failing receive if no slice of it is posted. */
static void recv_settle(tryst_op *op)
{
    if (op->state != OP_ENDING)
        op_state_set(op, OP_ENDING);
    if (op->run && op->run->outstanding)
        return;
    if (op->run)
        recv_run_close(op);
    recv_finish(op, op_fail_cause(op));
}

/* Fail a receive: its id has ended without all bytes. The buffer is free when nothing
 * is posted in it. The answer to a CANCEL carries the cause of the CANCEL, or the
 * producer's own cause if the producer was failing first. */
static void recv_ending(tryst_op *op, struct cause cause, uint32_t upto, unsigned records)
{
    /* The close of this group is the outcome, whatever the peer answers. */
    if (op->fail != TRYST_E_CONTEXT)
        op_cause_set(op, cause, NULL);
    records_clear(op);
    id_drop(op);
    if (records)
        records_queue(op, records);
    if (op->run)
        recv_run_withdraw(op, upto);
    recv_settle(op);
}

/* True if the receive is failing: its bytes are dropped, and flow->late keeps the cause,
 * which the report of a receive with all bytes would lose. */
static bool flow_drops(const tryst_op *op)
{
    struct flow *flow = op->flow;
    if (op->fail == TRYST_OK)
        return false;
    flow->late = op_fail_cause(op);
    return true;
}

static void flow_slice_arrived(tryst_op *op, uint32_t index)
{
    struct flow *flow = op->flow;
    if (flow_drops(op))
        return;
    if (flow->slices_announced <= index)
        flow->slices_announced = index + 1; /* posted ahead of the OFFER */
    op_trace_slice(op, index);
    if (flow->ops->arrived)
        flow->ops->arrived(flow, index);
}

/* Note that a slice is in place: report the flow's slice, repost, acknowledge,
 * finish. */
static void slice_in_place(tryst_op *op, struct recv_slice *slice)
{
    struct recv_run *run = op->run;
    uint32_t index = slice->index;
    bool was_told = slice->borrowed; /* `arrived` was called */
    op->peer->bytes_received += slice->bulk.bytes;
    op->rdv->counters.bulk_bytes_received += slice->bulk.bytes;
    recv_run_announce(op->peer, run, op->flow ? index + 1 : run->slices);
    recv_run_advance(run, slice);
    op->done_upto = run->upto;
    if (op->state != OP_WANTED)
        return;
    if (op->flow && !was_told)
        flow_slice_arrived(op, index);
    recv_run_repost(op, run);
    records_queue(op, QUEUED_DONE);
    if (run->upto < run->slices)
        return;
    /* The id lives until DONE is packed: op_end drops it. */
    recv_run_close(op);
    recv_finish(op, cause_own(op->rdv, op->done_status));
}

/* Note that a slice has come, but not to the device: the remaining slices are received,
 * then both ends fail. */
static void slice_not_in_place(tryst_op *op, tryst_status status)
{
    if (op->done_status != TRYST_OK)
        return;
    op->done_status = status;
    op_text_set(op, "cannot copy the tensor to the device");
}

/* Fail, after the end of its id, a receive that has been failing while the id was
 * live. */
static void recv_fail_late(tryst_op *op)
{
    bool offered = op->state == OP_POSTED;
    consumer_fail(op, op_fail_cause(op), op->text);
    if (op->state != OP_VOID)
        return;
    if (offered)
        want_queue(op); /* the peer sends one OFFER, and it has come */
    else if (op->scope->state == SCOPE_CLOSING)
        op_end(op); /* the close has already swept its operations */
}

/* Handle the end of a posted slice. */
static void recv_slice_arrived(struct bulk *bulk, tryst_status status, size_t bytes)
{
    struct recv_slice *slice = container_of(bulk, struct recv_slice, bulk);
    tryst_op *op = slice->op;
    struct peer *peer = op->peer;
    recv_run_slot_back(peer, slice);
    if (bulk->borrowed && status == TRYST_E_NOMEM) {
        /* it came by copy, and is dropped */
        consumer_fail(op, cause_own(op->rdv, status), "no memory for a slice");
        status = TRYST_OK;
        bytes = bulk->bytes;
    }
    if (op->device && op_device_copy_failed(status) && bytes == bulk->bytes) {
        slice_not_in_place(op, status);
        status = TRYST_OK;
    }
    if (status == TRYST_OK && bytes == bulk->bytes)
        slice_in_place(op, slice);
    else if (status == TRYST_E_PEER && peer->life == PEER_ALIVE)
        peer_ep_lost(peer, NULL);
    else if (status != TRYST_E_CANCELED && peer->life == PEER_ALIVE)
        peer_fault(peer, PEER_FAULT_SLICE, NULL);
    if (op->run && op->run->withdrawn && op->run->outstanding == 0) {
        recv_run_close(op);
        if (op->state == OP_ENDING)
            recv_settle(op);
        else if (op->fail != TRYST_OK)
            recv_fail_late(op);
        else if (op->state == OP_POSTED)
            want_queue(op); /* announced again only now, without posted slices */
    }
    consumer_slots_serve(peer);
}

/* Return the slices of a failing flow that can be read: they count as arrived, since
 * their sender may be beyond a cancel. */
static void recv_borrowed_return(tryst_op *op)
{
    struct recv_slice *slice;
    op_hold(op);
    while ((slice = recv_run_borrowed_first(op)) != NULL) {
        struct endpoint *ep = op->peer->endpoint.ep;
        slice->borrowed = false;
        if (ep->rail->ops->bulk_return(ep, &slice->bulk) == TRYST_OK)
            recv_slice_arrived(&slice->bulk, TRYST_OK, slice->bulk.bytes);
    }
    op_unhold(op);
}

/* Handle a slice that can be read where it lies. Unless its flow fails, it is the flow's
 * until flow_return. */
static void recv_slice_borrowed(struct bulk *bulk, size_t bytes)
{
    struct recv_slice *slice = container_of(bulk, struct recv_slice, bulk);
    tryst_op *op = slice->op;
    slice->borrowed = true;
    if (bytes != bulk->bytes) {
        slice->borrowed = false; /* the end of the endpoint ends it */
        if (op->peer->life == PEER_ALIVE)
            peer_fault(op->peer, PEER_FAULT_SLICE, NULL);
    } else if (op->state != OP_WANTED || op->fail != TRYST_OK) {
        recv_borrowed_return(op);
    } else {
        recv_run_announce(op->peer, op->run, slice->index + 1);
        flow_slice_arrived(op, slice->index);
    }
}

void consumer_slice_returned(struct recv_slice *slice)
{
    recv_slice_arrived(&slice->bulk, TRYST_OK, slice->bulk.bytes);
}

static void recv_released(tryst_op *op, tryst_status status);

/* ---- announcing -------------------------------------------------------------------- */

/* Announce a receive, now or later. A small receive waits, since its DATA comes without
 * a WANT. It is announced when the peer lacks credit, before a thread sleeps, or at a
 * tick, in case the producer has closed the step or has sent a different tensor. */
static void recv_expect(tryst_op *op)
{
    struct peer *peer = op->peer;
    if (peer_in(peer)->header_flags & FRAME_BLOCKED || op->alloc ||
        op->bytes > op->rdv->set.eager_max_bytes) {
        want_queue(op);
        return;
    }
    op->records |= QUEUED_WANT;
    urgent_push(&peer_in(peer)->unannounced, &op->pending_node, &op->urgency);
    if (!list_linked(&peer_in(peer)->unannounced_node))
        list_push_back(&op->rdv->unannounced_peers, &peer_in(peer)->unannounced_node);
}

/* Give the kept DATA to its receive. */
static void unexpected_deliver(tryst_op *op, struct unexpected *unexpected)
{
    struct arrived arrived = {.number = unexpected->number,
                              .status = unexpected->status,
                              .bytes = unexpected->bytes,
                              .dtype = unexpected->dtype,
                              .peer_text = peer_text_of(unexpected->text),
                              .shape = unexpected->shaped ? &unexpected->shape : NULL,
                              .payload = unexpected->payload};
    consumer_deliver(op, &arrived);
    unexpected_free(unexpected);
}

/* Let a receive with a number and writable memory take the DATA that has come, or wait
 * for it. */
static void recv_enter(tryst_op *op)
{
    struct unexpected *unexpected = unexpected_find(op->entry, op->queued.seq);
    if (unexpected)
        unexpected_deliver(op, unexpected);
    else
        recv_expect(op);
}

void consumer_submit(tryst_op *op)
{
    op->queued.seq = op->entry->recv_next++;
    queue_insert(&op->entry->recvs, &op->queued);
    peer_connect_start(op->peer);
    op_state_set(op, OP_POSTED);
    if (__builtin_expect(!op->device, 1) || !op_device_hold(op, recv_released))
        recv_enter(op);
}

void consumer_skip_to(struct entry *entry, uint64_t number)
{
    struct queue_node *item;
    while ((item = queue_next(&entry->unexpected, NULL)) != NULL && item->seq < number) {
        struct unexpected *unexpected = container_of(item, struct unexpected, queued);
        peer_data_done(unexpected->peer, unexpected->number);
        unexpected_free(unexpected);
    }
    entry->recv_next = number;
}

static void recv_announce(tryst_op *op)
{
    bool bulk = op->state != OP_VOID && !(op->alloc && !op->tensor.data) &&
                op->bytes > op->rdv->set.eager_max_bytes;
    if (bulk) {
        tryst_status status = recv_run_open(op);
        if (status != TRYST_OK) { /* WANT(VOID) reports the failure */
            consumer_fail(op, cause_own(op->rdv, status),
                          "cannot receive: out of memory");
            return;
        }
    }
    op->ids = op->run ? op->run->slices : 1;
    op->id = engine_ids(op->rdv, op->ids);
    hash_table_add(&op->rdv->ids.table, &op->by_id, hash_keyed_id(op->id));
    if (op->run) {
        op->run->slice_done = recv_slice_arrived;
        op->run->slice_borrowed = recv_slice_borrowed;
        recv_run_post(op, op->run);
    }
    peer_out(op->peer)->wants_sent++;
    if (op->state != OP_VOID)
        op_state_set(op, OP_WANTED);
    urgent_remove(&op->pending_node);
    records_queue(op, QUEUED_WANT);
}

void consumer_announce(struct peer *peer)
{
    struct urgent_node *node;
    while ((node = urgent_first(&peer_out(peer)->wants_waiting)) != NULL &&
           peer_out(peer)->wants_sent - peer_out(peer)->wants_acked <
               peer->rdv->set.wants_max) {
        tryst_op *op = container_of(node, tryst_op, pending_node);
        /* Slices of its last id are being withdrawn; it is queued again after that. */
        if (op->run)
            urgent_remove(node);
        else
            recv_announce(op);
    }
}

/* ---- bytes arrive ------------------------------------------------------------------ */

/* True if `status` of an alloc callback may end both ends: it is neither a deadline nor
 * the close of a group. */
static bool alloc_may_return(tryst_status status)
{
    return status_is_outcome(status) && status != TRYST_E_DEADLINE &&
           status != TRYST_E_CONTEXT;
}

/* Request memory from the alloc callback: dtype and size are known. */
static tryst_status recv_allocate(tryst_op *op, uint8_t dtype, uint64_t bytes)
{
    size_t element = dtype_bytes((tryst_dtype)dtype);
    if (!element || bytes % element || bytes > UINT64_MAX / 2)
        return TRYST_E_MISMATCH;
    tryst_tensor tensor = {.struct_size = sizeof tensor,
                           .dtype = (tryst_dtype)dtype,
                           .count = bytes / element};
    op->tensor.dtype = tensor.dtype; /* without data: op_shape_was_refused */
    tryst_status status = op->alloc(op->alloc_arg, &tensor);
    if (status != TRYST_OK)
        return alloc_may_return(status) ? status : TRYST_E_INVALID;
    if (bytes && !tensor.data)
        return TRYST_E_INVALID;
    tensor.struct_size = sizeof tensor;
    tensor.count = bytes / element;
    tensor.dtype = (tryst_dtype)dtype;
    status = op_memory_check(op->rdv, &tensor, bytes);
    /* The callback has used the device, so the driver runs already. A DATA that is being
     * read cannot be held. */
    if (status == TRYST_IN_PROGRESS)
        status = op_memory_check_now(op->rdv, &tensor);
    if (status != TRYST_OK)
        return status;
    op_tensor_set(op, &tensor, bytes);
    return tensor.memory == TRYST_MEMORY_HOST ? TRYST_OK : op_device_open(op, false);
}

/* Queue a DONE for the DATA; the operation carries the record. */
static void data_done_later(tryst_op *op, tryst_status status)
{
    op->done_status = status;
    op->took_data = true;
    records_queue(op, QUEUED_DONE);
}

/* Complete a small receive: its bytes are on the device, or the copy failed. */
static void recv_placed(tryst_op *op, tryst_status status)
{
    op_report(op, status, status == TRYST_OK ? -1 : op->rdv->group->roster.rank, status,
              status == TRYST_OK ? NULL : "cannot copy the tensor to the device");
    /* The operation carries DONE: the ring of answers has no place for DATA that cost no
     * credit. */
    if (status != TRYST_OK ||
        stream_in_has_passed(&peer_in(op->peer)->stream, op->number)) {
        data_done_later(op, status);
        return;
    }
    peer_data_done(op->peer, op->number);
    op_end(op);
}

/* Give the payload of a DATA to the receive's flow. */
static tryst_status flow_deliver(tryst_op *op, const void *payload, size_t bytes)
{
    struct flow *flow = op->flow;
    if (flow_drops(op))
        return TRYST_OK;
    if (flow->ops->take)
        flow->ops->take(flow, payload, bytes);
    else if (bytes)
        memcpy(op->tensor.data, payload, bytes);
    return TRYST_OK;
}

/* Copy the bytes of a DATA. Returns TRYST_OK, TRYST_IN_PROGRESS (recv_placed
 * follows), or the status with which both ends fail. */
static tryst_status data_place(tryst_op *op, const struct arrived *arrived)
{
    if (arrived->status != TRYST_OK)
        return arrived->status;
    if (__builtin_expect(arrived->shape || op_shape_of(op), 0) &&
        !flow_shapes_equal(arrived->shape, op_shape_of(op)))
        return TRYST_E_MISMATCH;
    if (op->alloc && !op->tensor.data) {
        tryst_status status = recv_allocate(op, arrived->dtype, arrived->bytes);
        if (status != TRYST_OK)
            return status;
    } else if (arrived->dtype != op->tensor.dtype || arrived->bytes != op->bytes) {
        return TRYST_E_MISMATCH;
    }
    op->peer->bytes_received += arrived->bytes;
    if (__builtin_expect(op->flow != NULL, 0))
        return flow_deliver(op, arrived->payload, arrived->bytes);
    if (__builtin_expect(op->device != NULL, 0) && arrived->bytes) {
        bool placed = op_device_place(op, arrived->payload, arrived->bytes, recv_placed);
        return placed ? TRYST_IN_PROGRESS : TRYST_E_NOMEM;
    }
    if (arrived->bytes)
        memcpy(op->tensor.data, arrived->payload, arrived->bytes);
    return TRYST_OK;
}

/* Describe in the text of `op` why this rank fails the DATA with `status`. */
static void data_explain(tryst_op *op, const struct arrived *arrived, tryst_status status)
{
    struct shape send = {arrived->bytes, arrived->dtype, arrived->shape};
    if (op_shape_was_refused(op))
        op_refusal_explain(op, send);
    if (status == TRYST_E_MISMATCH)
        op_mismatch_explain(op, send);
}

/* Fail both ends: the DATA does not fit this receive, or has failed itself. */
static void data_fail(tryst_op *op, const struct arrived *arrived, tryst_status status)
{
    struct cause cause = cause_own(op->rdv, status);
    if (arrived->status == TRYST_OK) {
        data_explain(op, arrived, status);
    } else {
        cause = cause_in_data(op->peer, op, status, arrived->payload);
        op_cause_explain(op, cause, arrived->peer_text);
    }
    if (op->run) {
        /* Slices were posted for an answer that came as a status: withdraw them first. */
        op->done_status = status;
        op->took_data = true;
        recv_ending(op, cause, 0, QUEUED_DONE);
        return;
    }
    id_drop(op);
    data_done_later(op, status);
    recv_finish(op, cause);
}

void consumer_deliver(tryst_op *op, const struct arrived *arrived)
{
    bool is_void = op->state == OP_VOID;
    op->number = arrived->number;
    tryst_status status = is_void ? op_peer_status(op->final) : data_place(op, arrived);
    if (__builtin_expect(status == TRYST_OK, 1)) {
        assert(!op->run); /* eager_data refuses such DATA */
        want_withdraw(op);
        op_report(op, TRYST_OK, -1, TRYST_OK, NULL);
        peer_data_done(op->peer, op->number);
        op_end(op);
        return;
    }
    records_clear(op);
    urgent_remove(&op->deferred_node);
    list_remove(&op->queued.node); /* no search for its number follows */
    if (is_void) {                 /* the receive ends when this DONE is packed */
        id_drop(op);
        data_done_later(op, status);
    } else if (status == TRYST_IN_PROGRESS) { /* reported when its bytes are in place */
        id_drop(op);
        op_state_set(op, OP_TAKEN);
    } else {
        data_fail(op, arrived, status);
    }
}

/* Return this rank's receive with this id; NULL: there is none that the peer may
 * answer. */
static tryst_op *recv_by_id(struct peer *peer, uint64_t id)
{
    struct hash_node *node = hash_table_find(&peer->rdv->ids.table, hash_keyed_id(id));
    tryst_op *op = node ? container_of(node, tryst_op, by_id) : NULL;
    bool said = op && op->kind == OP_RECV && op->peer == peer && !want_is_packed_next(op);
    return said ? op : NULL;
}

/* ---- OFFER and the ends of an id --------------------------------------------------- */

/* Handle an OFFER for a flow that has a run. */
static void offer_flow(tryst_op *op, uint32_t ready)
{
    struct flow *flow = op->flow;
    if (ready > flow->slices) {
        peer_fault(op->peer, PEER_FAULT_OFFER_READY, NULL);
        return;
    }
    /* An OFFER that is not newer, or for a failing receive, changes nothing. */
    if (ready <= flow->slices_announced || op->fail != TRYST_OK)
        return;
    flow->slices_announced = ready;
    recv_run_announce(op->peer, op->run, ready);
    if (flow->ops->slices_announced)
        flow->ops->slices_announced(flow);
    recv_run_serve(op);
}

/* Post slices now: the producer's bytes are ready, and none was posted. */
static void offer_ready(tryst_op *op)
{
    recv_run_announce(op->peer, op->run, op->run->slices);
    if (op->run->next == 0) /* else posted meanwhile, and reported by a DONE */
        recv_run_serve(op);
}

/* Allocate the shape that an ALLOC receive requested, and announce the receive anew. */
static void offer_shape(tryst_op *op, const struct record_offer *offer)
{
    records_clear(op);
    id_drop(op);
    op_state_set(op, OP_POSTED);
    tryst_status status =
        op->fail != TRYST_OK ? op->fail : recv_allocate(op, offer->dtype, offer->bytes);
    if (status == TRYST_OK && op->device && op_device_hold(op, recv_released))
        /* Announced when its memory may be written. */
        return;
    want_queue(op); /* WANT(VOID) reports a refusal */
    if (status == TRYST_OK)
        return;
    if (op_shape_was_refused(op))
        op_refusal_explain(op, (struct shape){offer->bytes, offer->dtype, NULL});
    consumer_fail(op, cause_own(op->rdv, status),
                  "cannot receive the offered tensor: its shape, or the memory from the "
                  "alloc callback, is not valid");
}

/* Fail the receive. The producer compares the shapes of WANT and send, so an OFFER of
 * another shape is not of the send that met this receive. */
static void offer_mismatch(tryst_op *op, struct shape other)
{
    op_mismatch_explain(op, other);
    consumer_fail(op, (struct cause){TRYST_E_MISMATCH, op->peer->rank, TRYST_E_MISMATCH},
                  NULL);
}

/* Announce a deferred receive again. */
static void consumer_reannounce(tryst_op *op)
{
    urgent_remove(&op->deferred_node);
    op_state_set(op, OP_POSTED);
    want_queue(op);
}

void consumer_tick(struct peer *peer)
{
    struct urgent_node *node;
    for (int i = 0;
         i < REANNOUNCED && (node = urgent_first(&peer_out(peer)->deferred_ops)); i++)
        consumer_reannounce(container_of(node, tryst_op, deferred_node));
}

/* Handle the OFFER of a tensor that is ready for a deferred receive. */
static void offer_deferred(struct peer *peer, const struct record_offer *offer)
{
    const char *key = (const char *)(offer + 1);
    struct scope *scope = scope_find(&peer->rdv->scopes, offer->step);
    struct entry *entry = scope ? entry_find(scope, hash_keyed(key, offer->key_bytes),
                                             key, offer->key_bytes)
                                : NULL;
    tryst_op *op = entry ? op_find(&entry->recvs, offer->seq) : NULL;
    if (!op || op->peer != peer)
        return; /* the receive, when it is posted, sends a WANT */
    if (op->state == OP_DEFERRED) {
        consumer_reannounce(op);
    } else if (op->state == OP_VOID && !op->id && !(op->records & QUEUED_WANT)) {
        want_queue(op);
    }
}

void consumer_offer(struct peer *peer, const struct record_offer *offer)
{
    if (!offer->want) {
        offer_deferred(peer, offer);
        return;
    }
    tryst_op *op = recv_by_id(peer, offer->want);
    if (!op || op->state != OP_WANTED)
        return; /* the receive has ended meanwhile */
    const struct flow_shape *shape = wire_shape(&offer->header);
    if (!flow_shapes_equal(shape, op_shape_of(op)))
        offer_mismatch(op, (struct shape){offer->bytes, offer->dtype, shape});
    else if (op->run && op->flow)
        offer_flow(op, offer->ready);
    else if (op->run)
        offer_ready(op);
    else if (offer->bytes <= op->rdv->set.eager_max_bytes)
        /* A small tensor comes as DATA. After an OFFER of 0 bytes the receive would have
         * no memory, and request another OFFER. */
        peer_fault(peer, PEER_FAULT_OFFER_SMALL, NULL);
    else if (op->alloc && !op->tensor.data)
        offer_shape(op, offer);
    else
        peer_fault(peer, PEER_FAULT_OFFER, NULL);
}

static void recv_deferred(tryst_op *op)
{
    records_clear(op); /* the queued records were about the ended id */
    id_drop(op);
    if (op->state == OP_VOID) {
        if (op->scope->state == SCOPE_CLOSING)
            op_end(op);
        return; /* else an OFFER will request its number again */
    }
    if (op->run) {
        recv_run_withdraw(op, 0);
        if (op->run->outstanding == 0)
            recv_run_close(op);
    }
    op_state_set(op, OP_DEFERRED);
    urgent_push(&peer_out(op->peer)->deferred_ops, &op->deferred_node, &op->urgency);
    if (op->fail != TRYST_OK && !op->run)
        recv_fail_late(op);
}

/* End a receive: its WANT was not met. The text of an earlier failure is dropped if the
 * producer failed for another reason. */
static void recv_answered(tryst_op *op, struct cause cause, struct wire_text peer_text,
                          uint32_t upto)
{
    if (op->fail != TRYST_OK && op->fail != TRYST_E_CONTEXT && op->fail != cause.status)
        op_text_drop(op);
    op_cause_explain(op, cause, peer_text);
    recv_ending(op, cause, upto, 0);
}

void consumer_ended(struct peer *peer, const struct record_answer *answer)
{
    tryst_op *op = recv_by_id(peer, answer->id);
    if (!op || (op->state != OP_WANTED && op->state != OP_VOID))
        return;
    bool deferred = answer->header.type == RECORD_DEFERRED;
    if (deferred && op->flow && op->flow->slices_announced) {
        peer_fault(peer, PEER_FAULT_DEFERRED_LATE, NULL);
    } else if (deferred) {
        recv_deferred(op);
    } else if (op->state == OP_VOID) {
        op_end(op);
    } else {
        recv_answered(op, cause_in_answer(peer, op, answer), wire_answer_text(answer),
                      answer->upto);
    }
}

/* ---- failure ----------------------------------------------------------------------- */

/* Set the cause of the failure. False: the receive was failing already. */
static bool fail_set(tryst_op *op, struct cause cause, const char *text)
{
    if (op->fail != TRYST_OK)
        return false;
    op_cause_set(op, cause, text);
    return true;
}

/* Report the failure; VOID keeps the number to be consumed, unless the step is being
 * closed. */
static void recv_void(tryst_op *op)
{
    op_report_fail(op);
    urgent_remove(&op->deferred_node);
    op_state_set(op, OP_VOID);
    if (op->scope->state == SCOPE_CLOSING)
        op_end(op);
    else if (op->records & QUEUED_WANT)
        want_queue(op); /* the receive may have left the queue to wait for slices */
}

/* Fail a held receive: announce its number to the producer, or give it to the DATA that
 * has come. */
static void recv_void_announce(tryst_op *op)
{
    op_hold(op); /* taking the DATA may end the receive */
    recv_void(op);
    struct unexpected *unexpected =
        op->state == OP_VOID ? unexpected_find(op->entry, op->queued.seq) : NULL;
    if (unexpected)
        unexpected_deliver(op, unexpected);
    else if (op->state == OP_VOID)
        want_queue(op);
    op_unhold(op);
}

/* Continue a held receive: its device is ready for it, or has failed with `status`. */
static void recv_released(tryst_op *op, tryst_status status)
{
    if (status == TRYST_OK) {
        recv_enter(op);
        return;
    }
    fail_set(op, cause_own(op->rdv, status), op_device_why(op));
    recv_void_announce(op);
}

void consumer_fail(tryst_op *op, struct cause cause, const char *text)
{
    switch (op->state) {
    case OP_POSTED:
    case OP_DEFERRED:
        fail_set(op, cause, text);
        if (op->run)
            /* The slices are being withdrawn; then this function is called again. */
            break;
        if (op_device_is_held(op)) {
            op_device_unhold(op);
            recv_void_announce(op);
            break;
        }
        recv_void(op);
        break;
    case OP_WANTED:
        if (!fail_set(op, cause, text))
            break;
        records_queue(op, QUEUED_CANCEL);
        recv_borrowed_return(op);
        break;
    default: break;
    }
}

void consumer_peer_gone(tryst_op *op)
{
    if (op->run) {
        assert(op->run->outstanding == 0);
        recv_run_close(op);
    }
    if (op_device_is_held(op))
        op_device_unhold(op);
    records_clear(op);
    if (op->fail != TRYST_OK) /* a derived error never replaces a cause */
        op_report_fail(op);
    op_report(op, op->peer->liveness.gone_status, op->peer->rank,
              op->peer->liveness.gone_status, op->peer->liveness.gone_text);
    op_end(op);
}
