/* SPDX-License-Identifier: Apache-2.0 */
/* A want between its match and its end; see send_run.h. */
#include "send_run.h"
#include "commsched/sched/sched.h"

#include <string.h>

#include "core/memory/alloc.h"
#include "op_device.h"
#include "rendezvous/op/engine.h"
#include "rendezvous/peer/endpoint.h"
#include "rendezvous/peer/fault.h"
#include "want.h"

/* One slice in flight. */
struct send_slice {
    struct bulk bulk;
    struct want *want;
    struct list_node node; /**< in want->leaving, of a flow */
    uint32_t index;
    bool left; /**< of a flow: the transport has finished with the slice */
};

/* Make `sort_key` as urgent as this end. Does nothing for an end without an urgency. */
static uint64_t sort_key_with_end(uint64_t sort_key, bool has_priority, bool background,
                                  int32_t priority)
{
    uint64_t its =
        urgency_sort_key(background ? URGENCY_BACKGROUND : URGENCY_TRAINING, priority);
    return (has_priority || background) && its < sort_key ? its : sort_key;
}

/* Return the urgency of the transfer: the more urgent of both ends counts; an end without
 * a priority takes that of the other. Where no end was submitted with one, the transfer
 * has the middle priority, or that of a raise if this is more urgent. */
static struct urgency matched_urgency(const struct want *want, const tryst_op *op)
{
    bool send_sets = op->flags & (TRYST_OP_PRIORITY | TRYST_OP_BACKGROUND) && !op->raised;
    bool recv_sets = want->flags & (RECORD_PRIORITY | RECORD_BACKGROUND) &&
                     !(want->flags & RECORD_RAISED);
    struct urgency urgency = op->urgency;
    uint64_t sort_key =
        send_sets || recv_sets ? UINT64_MAX : urgency_sort_key(URGENCY_TRAINING, 0);
    sort_key = sort_key_with_end(sort_key, op->flags & TRYST_OP_PRIORITY,
                                 op->flags & TRYST_OP_BACKGROUND, op->priority);
    sort_key = sort_key_with_end(sort_key, want->flags & RECORD_PRIORITY,
                                 want->flags & RECORD_BACKGROUND, want->priority);
    urgency.sort_key = sort_key & op->rdv->set.urgency_mask;
    return urgency;
}

const size_t send_slice_bytes = sizeof(struct send_slice);

void send_run_ready(tryst_op *op)
{
    struct transfer *transfer = &op->want->transfer;
    op->want_id = op->want->id;
    transfer->ready = op->flow->ready;
    if (transfer->ready > transfer->posted)
        records_queue(op, QUEUED_OFFER);
}

void send_run_begin(struct want *want, tryst_op *op)
{
    list_remove(&op->queued.node);
    op->want = want;
    want->send = op;
    op_state_set(op, OP_MATCHED);
    want->transfer.lane = &want->peer->lane;
    want->transfer.urgency = matched_urgency(want, op);
    want->transfer.round_robin = op->flow != NULL;
    /* An OFFER reports ready bytes to a consumer that could not post ahead. */
    if (op->flow) {
        list_init(&want->leaving);
        send_run_ready(op);
    } else if (want->transfer.posted == 0) {
        op->want_id = want->id;
        records_queue(op, QUEUED_OFFER);
    }
    sched_add(op->rdv->sched, &want->transfer);
}

void send_run_forget(struct want *want)
{
    struct rendezvous *rdv = want->peer->rdv;
    rdv->bulk.moving -= want->transfer.next - want->transfer.upto;
    sched_remove(rdv->sched, &want->transfer);
    want->transfer.upto = want->transfer.next;
}

/* Finish the send if no slice is in the transport and all have arrived, or if none is in
 * the transport and the send is failing. */
static void send_maybe_finish(struct want *want)
{
    tryst_op *op = want->send;
    if (!op || want->in_flight)
        return;
    if (op->state == OP_ENDING) {
        send_run_forget(want);
        op_report_fail(op);
    } else if (want->transfer.upto == want->transfer.slices) {
        op_report_fail(op); /* with the status of its DONE */
        want_id_end(want);
    } else {
        return;
    }
    want->send = NULL;
    op->want = NULL;
    op_end(op);
    want_maybe_free(want);
}

/* Stop the transfer: no further slice starts. Slices in flight hold their window until
 * they have left the transport; otherwise each cancel would put another window of bytes
 * ahead of urgent ones. The WANT is answered later, when the number of slices that the
 * consumer receives is known (matched_answer). */
static void matched_stop(tryst_op *op, struct cause cause, const char *text)
{
    op_cause_set(op, cause, text);
    op->want->transfer.posted = op->want->transfer.next;
    sched_posted(op->rdv->sched, &op->want->transfer);
    op->records &= (uint8_t)~QUEUED_OFFER;
    op_state_set(op, OP_ENDING);
    op->want->answer_due = true;
}

/* Answer the WANT of a stopped transfer. Slices from host memory count as sent once the
 * transport has taken them; slices from a device only after their copy. */
static void matched_answer(struct want *want)
{
    tryst_op *op = want->send;
    if (!want->answer_due || (op->device && want->in_flight))
        return;
    char text[CAUSE_TEXT_BYTES];
    struct cause cause = op_cause(op, op->fail);
    want->answer_due = false;
    want_answer(want, RECORD_CANCELED, cause, op_cause_text(op, cause, text));
}

/* Note that a slice of a device tensor was not sent; no later slice will be. */
static void slice_unsent(struct want *want, uint32_t index, tryst_status status)
{
    tryst_op *op = want->send;
    if (op->state == OP_MATCHED)
        matched_stop(op, cause_own(op->rdv, status),
                     "cannot copy the tensor from the device");
    if (index >= want->transfer.next)
        return;
    send_run_forget(want);
    want->transfer.upto = want->transfer.next = index;
}

/* Call `sent` for the slices of a flow in order, up to the first that the transport did
 * not send. */
static void flow_slice_left(struct want *want, struct send_slice *slice, bool sent)
{
    struct list_node *node;
    slice->left = true;
    if (!sent)
        want->reported = UINT32_MAX;
    while ((node = list_first(&want->leaving)) != NULL) {
        slice = container_of(node, struct send_slice, node);
        if (!slice->left)
            return;
        list_remove(node);
        if (want->send && want->send->state == OP_MATCHED &&
            slice->index == want->reported) {
            want->reported++;
            send_slice_left(want->send, slice->index);
        }
        pool_put(want->peer->rdv->slices, slice);
    }
}

static void slice_sent(struct bulk *bulk, tryst_status status, size_t bytes)
{
    struct send_slice *slice = container_of(bulk, struct send_slice, bulk);
    struct want *want = slice->want;
    struct peer *peer = want->peer;
    uint64_t slice_bytes = bulk->bytes;
    uint32_t index = slice->index;
    bool device = bulk->memory;
    (void)bytes;
    if (list_linked(&slice->node))
        flow_slice_left(want, slice, status == TRYST_OK);
    else
        pool_put(peer->rdv->slices, slice);
    want->in_flight--;
    if (status == TRYST_OK)
        peer->bytes_sent += slice_bytes;
    else if (device && want->send && peer->life <= PEER_LEFT &&
             (status == TRYST_E_CANCELED || op_device_copy_failed(status)))
        slice_unsent(want, index, status);
    else if (peer->life == PEER_ALIVE)
        peer_ep_lost(peer, NULL);
    if (want->send) {
        matched_answer(want);
        send_maybe_finish(want);
    } else {
        want_maybe_free(want);
    }
}

bool send_run_slice_wanted(const struct bulk *bulk)
{
    const struct want *want = container_of(bulk, struct send_slice, bulk)->want;
    return want->send && want->send->state == OP_MATCHED;
}

enum transfer_hold send_run_held_by(const tryst_op *op, const tryst_op **before_p)
{
    const struct transfer *before = NULL;
    *before_p = NULL;
    if (op->kind != OP_SEND || op->state != OP_MATCHED)
        return HOLD_NONE;
    enum transfer_hold hold = sched_held_by(op->rdv->sched, &op->want->transfer, &before);
    if (before)
        *before_p = container_of(before, const struct want, transfer)->send;
    return hold;
}

tryst_status transfer_start(struct transfer *transfer)
{
    struct want *want = container_of(transfer, struct want, transfer);
    struct peer *peer = want->peer;
    if (peer->endpoint.state != PEER_EP_READY)
        return TRYST_AGAIN;
    struct send_slice *slice = pool_get(peer->rdv->slices);
    if (!slice) {
        peer->rdv->start_failed = true;
        return TRYST_AGAIN;
    }
    memset(slice, 0, sizeof *slice);
    uint32_t index = transfer->next;
    slice->want = want;
    slice->index = index;
    slice->bulk.done = slice_sent;
    slice->bulk.tag = (want->id + index) & peer->rdv->ids.mask;
    slice->bulk.data =
        (char *)want->send->tensor.data + (uint64_t)index * transfer->slice_bytes;
    slice->bulk.bytes = transfer_slice_bytes(transfer, index);
    slice->bulk.mem = want->send->tensor.mem;
    slice->bulk.urgency = transfer->urgency;
    slice->bulk.hot = want->send->flow != NULL;
    uint64_t begin_ns = trace_now_ns(peer->rdv->trace);
    tryst_status status =
        want->send->device
            ? op_device_bulk_send(want->send, &slice->bulk, want->flags & RECORD_DEVICE)
            : peer->endpoint.ep->rail->ops->bulk_send(peer->endpoint.ep, &slice->bulk);
    if (status != TRYST_OK) {
        pool_put(peer->rdv->slices, slice);
        peer->rdv->start_failed |= status == TRYST_AGAIN;
        return status;
    }
    if (want->send->flow)
        list_push_back(&want->leaving, &slice->node);
    want->in_flight++;
    rendezvous_moves(peer->rdv);
    if (index == 0)
        op_trace_flow(want->send, begin_ns);
    op_trace_slice(want->send, index);
    peer->rdv->counters.slices_started++;
    peer->rdv->counters.bulk_bytes_sent += slice->bulk.bytes;
    return TRYST_OK;
}

/* Send the slice size in the flags of the next header, if it has changed. The header
 * leaves alone if no record leaves. */
static void slice_size_send(struct peer *peer)
{
    uint64_t bytes = peer->lane.path.slice_bytes;
    unsigned code = bytes ? (unsigned)__builtin_ctzll(bytes / FRAME_SLICE_UNIT) : 0;
    uint8_t flags = (uint8_t)(code << FRAME_SLICE_SHIFT);
    if (flags == peer_out(peer)->slice_flags)
        return;
    peer_out(peer)->slice_flags = flags;
    peer_header_queue(peer);
}

/* Set the cause with which the send fails when its DONE reports a failure. */
static void done_failure_set(tryst_op *op, const struct record_answer *done)
{
    struct cause cause = cause_in_answer(op->peer, op, done);
    op_cause_explain(op, cause, wire_answer_text(done));
    op_cause_set(op, cause, NULL);
}

/* Note the slices that were posted for a WANT which waits for its send. */
static void parked_done(struct want *want, const struct record_answer *done)
{
    struct transfer *transfer = &want->transfer;
    if (done->upto || done->posted > transfer->slices)
        peer_fault(want->peer, PEER_FAULT_SLICES_DONE, NULL);
    else if (done->posted > transfer->posted)
        transfer->posted = done->posted;
}

void send_run_done(struct peer *peer, const struct record_answer *done)
{
    struct want *want = want_by_id(peer, done->id);
    if (want && !want->send && list_linked(&want->parked.node)) {
        parked_done(want, done);
        return;
    }
    if (!want || !want->send || want->send->state != OP_MATCHED)
        return; /* this rank has failed the send meanwhile */
    struct transfer *transfer = &want->transfer;
    if (done->upto > transfer->next || done->upto < transfer->upto ||
        done->posted > transfer->slices || done->posted < done->upto) {
        peer_fault(peer, PEER_FAULT_SLICES_DONE, NULL);
        return;
    }
    /* The consumer has all slices, but could not put all of them in place. */
    if (done->upto == transfer->slices && done->header.status != TRYST_OK)
        done_failure_set(want->send, done);
    while (transfer->upto < done->upto) {
        uint64_t bytes = transfer_slice_bytes(transfer, transfer->upto++);
        peer->rdv->bulk.moving--;
        sched_credit(peer->rdv->sched, transfer, bytes);
    }
    slice_size_send(peer);
    if (done->posted > transfer->posted) {
        transfer->posted = done->posted;
        sched_posted(peer->rdv->sched, transfer);
    }
    send_maybe_finish(want);
}

void send_run_fail(tryst_op *op, struct cause cause, const char *text)
{
    struct want *want = op->want;
    matched_stop(op, cause, text);
    matched_answer(want);
    send_maybe_finish(want);
}
