/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs of posted slices; recv_run.h describes their bounds.
 *
 * Idea: runs and slots come from pools, and a slot is freed when its slice and all slices
 * before it have arrived.
 *
 * Invariants: the slots of a run are those of its slices [upto, next); a peer's
 * slots_ahead and slots_ready count the slices posted for it.
 */
#include "recv_run.h"
#include "commsched/sched/sched.h"

#include <assert.h>
#include <string.h>

#include "core/memory/pool.h"
#include "op_device.h"
#include "rendezvous/op/engine.h"
#include "rendezvous/protocol/wire/wire.h"

/* True if slice `index` is ready at the sender, by an OFFER or by bulk. */
static bool slice_is_announced(const struct recv_run *run, uint32_t index)
{
    return index < run->slices_announced;
}

/* Add `count` to the peer's posted slices that are ready to be sent. While the peer has
 * such slices, it counts among its rail's senders. */
static void slots_ready_add(struct peer *peer, const struct recv_run *run, int32_t count)
{
    uint32_t before = peer_in(peer)->slots_ready;
    uint32_t *senders = &peer->rdv->rails[peer->lane.rail].senders;
    peer_in(peer)->slots_ready += (uint32_t)count;
    peer_in(peer)->ready_bytes += (uint64_t)((int64_t)count * run->slice_bytes);
    *senders += (uint32_t)(peer_in(peer)->slots_ready > 0) - (uint32_t)(before > 0);
}

/* Return the number of posted slices below `slices_announced` that count in
 * slots_ahead. */
static uint32_t ahead_below(const struct recv_run *run, uint32_t slices_announced)
{
    uint32_t count = 0;
    if (slices_announced >= run->next)
        return run->ahead;
    list_for_each_safe (&run->slots, node, after) {
        const struct recv_slice *slice = container_of(node, struct recv_slice, node);
        if (slice->index >= slices_announced)
            break;
        count += slice->posted && !slice_is_announced(run, slice->index);
    }
    return count;
}

void recv_run_announce(struct peer *peer, struct recv_run *run, uint32_t slices_announced)
{
    if (slices_announced <= run->slices_announced)
        return;
    uint32_t moved = run->ahead ? ahead_below(run, slices_announced) : 0;
    peer_in(peer)->slots_ahead -= moved;
    slots_ready_add(peer, run, (int32_t)moved);
    run->ahead -= moved;
    run->slices_announced = slices_announced;
}

/* True if the slices of the run move through pinned slots. A posted slice holds its
 * slot, so it is posted only when its sender is ready. */
static bool run_is_staged(const tryst_op *op)
{
    return op->device && (op->run->refused ||
                          bounce_is_needed(op->peer->endpoint.ep, op->device->memory));
}

/* True if a slice of the run fits into the peer's share of the rail's window
 * (recv_run.h). If it does not fit, the peer has two ready slices posted at least; when
 * one of them comes back, consumer_slots_serve runs. */
static bool share_has_room(const struct peer *peer, const struct recv_run *run)
{
    const struct rendezvous *rdv = peer->rdv;
    uint32_t rail = peer->lane.rail;
    return post_share_has_room(sched_rail_window(rdv->sched, rail),
                               rdv->rails[rail].senders, peer_in(peer)->slots_ready,
                               peer_in(peer)->ready_bytes, run->slice_bytes);
}

static bool run_may_post(const struct peer *peer, const struct recv_run *run)
{
    uint32_t most = peer->endpoint.ep->rail->posted_max;
    bool is_announced = slice_is_announced(run, run->next);
    return peer_in(peer)->slots_ahead + peer_in(peer)->slots_ready < most &&
           (is_announced ? share_has_room(peer, run)
                         : peer_in(peer)->slots_ahead < most / 2) &&
           peer->endpoint.state == PEER_EP_READY;
}

/* Try again in the next pass, which serves the queue of runs (peer_flush). */
static void post_later(struct peer *peer)
{
    peer_in(peer)->post_refused = true;
    peer_flush_later(peer);
}

static tryst_status slice_post(tryst_op *op, struct recv_run *run, uint32_t index)
{
    struct recv_slice *slice = pool_get(op->rdv->recv_slices);
    struct endpoint *ep = op->peer->endpoint.ep;
    uint64_t at = (uint64_t)index * run->slice_bytes;
    uint64_t left = op->bytes - at;
    if (!slice) {
        post_later(op->peer);
        return TRYST_E_NOMEM;
    }
    memset(slice, 0, sizeof *slice);
    slice->op = op;
    slice->index = index;
    slice->bulk.done = run->slice_done;
    slice->bulk.tag = (op->id + index) & op->rdv->ids.mask;
    slice->bulk.data = run->placed ? run->place_data : (char *)op->tensor.data + at;
    slice->bulk.borrowed = run->placed && !run->place_data ? run->slice_borrowed : NULL;
    slice->bulk.bytes = left < run->slice_bytes ? left : run->slice_bytes;
    slice->bulk.mem = run->placed ? run->place_mem : op->tensor.mem;
    slice->bulk.urgency = op->urgency;
    slice->staged = run_is_staged(op);
    tryst_status status = op->device
                              ? op_device_bulk_recv(op, &slice->bulk, slice->staged)
                              : ep->rail->ops->bulk_recv(ep, &slice->bulk);
    if (status == TRYST_E_UNSUPPORTED && op->device)
        run->refused = true;
    if (status == TRYST_AGAIN && !(slice->staged && op->peer->bounce.awaits_slot))
        post_later(op->peer);
    if (status != TRYST_OK) {
        pool_put(op->rdv->recv_slices, slice);
        return status;
    }
    list_push_back(&run->slots, &slice->node);
    slice->posted = true;
    run->outstanding++;
    rendezvous_moves(op->rdv);
    if (slice_is_announced(run, index)) {
        slots_ready_add(op->peer, run, 1);
    } else {
        peer_in(op->peer)->slots_ahead++;
        run->ahead++;
    }
    return TRYST_OK;
}

/* Return the most slices that are posted at once: a small number while the next slice is
 * not known to be ready at the sender, so that other receives can be posted ahead
 * too. */
static uint32_t run_reach(const tryst_op *op, const struct recv_run *run)
{
    uint32_t ahead = 2 * op->rdv->set.posted_slices;
    return slice_is_announced(run, run->next) || run->depth < ahead ? run->depth : ahead;
}

bool recv_may_borrow(const tryst_op *op)
{
    const struct endpoint *ep = op->peer->endpoint.ep;
    return ep && ep->borrows;
}

/* True if the flow of the receive, if any, permits another posted slice. */
static bool flow_may_post(const tryst_op *op, const struct recv_run *run)
{
    const struct flow *flow = op->flow;
    return __builtin_expect(!flow, 1) ||
           (op->fail == TRYST_OK &&
            (!flow->ops->place || run->next < flow->slices_announced ||
             (flow->ahead && recv_may_borrow(op))));
}

/* Request memory for the next slice of a flow, once. True: the slice has memory. */
static bool flow_slice_place(tryst_op *op, struct recv_run *run)
{
    struct flow *flow = op->flow;
    /* placed > next: the transport had no room for this slice; its memory is valid. */
    if (__builtin_expect(!flow, 1) || !flow->ops->place || run->placed > run->next)
        return true;
    run->place_mem = NULL;
    if (flow->ops->place(flow, run->next, &run->place_data, &run->place_mem) != TRYST_OK)
        return false;
    run->placed = run->next + 1;
    return true;
}

/* True if the run has a slice to post, where a slot and memory are available. */
static bool run_has_next(const tryst_op *op, const struct recv_run *run)
{
    return !run->withdrawn && run->next < run->slices &&
           run->next < run->upto + run_reach(op, run) && flow_may_post(op, run);
}

bool recv_run_post(tryst_op *op, struct recv_run *run)
{
    bool full = false;
    if (!slice_is_announced(run, run->next) && run_is_staged(op))
        return false;
    while (!full && run_has_next(op, run)) {
        bool was_refused = run->refused;
        if (!run_may_post(op->peer, run))
            full = true;
        else if (!flow_slice_place(op, run))
            break; /* flow_place_again calls this again */
        else if (slice_post(op, run, run->next) == TRYST_OK)
            run->next++;
        else /* no room; or a staged slice now waits until the sender is ready */
            full = was_refused || !run->refused || !slice_is_announced(run, run->next);
    }
    op->done_posted = run->next;
    return full && slice_is_announced(run, run->next); /* else its OFFER is to come */
}

/* Return the slice size that suits the path from the peer, as the peer's headers report
 * it. */
static uint64_t slice_bytes_requested(const struct peer *peer)
{
    unsigned code = peer_in(peer)->header_flags >> FRAME_SLICE_SHIFT & FRAME_SLICE_MASK;
    uint64_t bytes = (uint64_t)FRAME_SLICE_UNIT << code;
    if (!code)
        return SCHED_SLICE_FIRST;
    return bytes < SCHED_SLICE_MAX ? bytes : SCHED_SLICE_MAX;
}

/* Return the slice size: of a flow the plan's; else TRYST_SLICE_BYTES, else the sender's
 * size, at most the rail's. */
static uint32_t slice_bytes_for(const tryst_op *op)
{
    uint64_t set = op->rdv->set.slice_bytes;
    if (op->flow)
        return op->flow->slice_bytes;
    return (uint32_t)rail_slice_bytes(op->peer->endpoint.ep->rail,
                                      set ? set : slice_bytes_requested(op->peer));
}

/* Return the most slices posted at once: the same number of bytes for every slice size,
 * within the rail's limit of slices. */
static uint64_t run_depth(const tryst_op *op, uint64_t slice_bytes)
{
    const struct rendezvous_settings *set = &op->rdv->set;
    uint64_t whole = set->slice_bytes ? set->slice_bytes : SCHED_SLICE_MAX;
    uint64_t depth = set->posted_slices * (whole > slice_bytes ? whole / slice_bytes : 1);
    uint32_t most = op->peer->endpoint.ep->rail->posted_max;
    return depth < most ? depth : most;
}

tryst_status recv_run_open(tryst_op *op)
{
    uint32_t slice_bytes = slice_bytes_for(op);
    uint64_t slices = (op->bytes + slice_bytes - 1) / slice_bytes;
    if (slices > UINT32_MAX / 2)
        return TRYST_E_UNSUPPORTED;
    struct recv_run *run = pool_get(op->rdv->recv_runs);
    if (!run)
        return TRYST_E_NOMEM;
    *run = (struct recv_run){.slices = (uint32_t)slices,
                             .slice_bytes = slice_bytes,
                             .depth = (uint32_t)run_depth(op, slice_bytes)};
    list_init(&run->slots);
    op->run = run;
    return TRYST_OK;
}

static struct recv_slice *slot_first(const struct recv_run *run)
{
    struct list_node *node = list_first(&run->slots);
    return node ? container_of(node, struct recv_slice, node) : NULL;
}

static void slot_drop(struct pool *slots, struct recv_run *run)
{
    struct list_node *node = list_pop_front(&run->slots);
    pool_put(slots, container_of(node, struct recv_slice, node));
}

void recv_run_close(tryst_op *op)
{
    assert(op->run->outstanding == 0);
    urgent_remove(&op->slot_node);
    while (!list_empty(&op->run->slots))
        slot_drop(op->rdv->recv_slices, op->run);
    pool_put(op->rdv->recv_runs, op->run);
    op->run = NULL;
}

void recv_run_withdraw(tryst_op *op, uint32_t upto)
{
    struct recv_run *run = op->run;
    struct endpoint *ep = op->peer->endpoint.ep;
    run->withdrawn = true;
    list_for_each_safe (&run->slots, node, after) {
        struct recv_slice *slice = container_of(node, struct recv_slice, node);
        bool is_here = slice->borrowed;
        slice->borrowed = false;
        if (slice->posted && (slice->index >= upto || is_here) && ep)
            slice->staged ? bounce_cancel(ep, &slice->bulk)
                          : ep->rail->ops->bulk_cancel(ep, &slice->bulk);
    }
}

struct recv_slice *recv_run_borrowed(const tryst_op *op, uint32_t index)
{
    if (!op || !op->run)
        return NULL;
    list_for_each_safe (&op->run->slots, node, after) {
        struct recv_slice *slice = container_of(node, struct recv_slice, node);
        if (slice->index == index)
            return slice->borrowed ? slice : NULL;
    }
    return NULL;
}

struct recv_slice *recv_run_borrowed_first(const tryst_op *op)
{
    if (!op->run)
        return NULL;
    list_for_each_safe (&op->run->slots, node, after) {
        struct recv_slice *slice = container_of(node, struct recv_slice, node);
        if (slice->borrowed)
            return slice;
    }
    return NULL;
}

/* Queue the run for slots, in order of urgency. */
static void slots_wait(tryst_op *op)
{
    if (!urgent_queued(&op->slot_node))
        urgent_push(&peer_in(op->peer)->slots_waiting, &op->slot_node, &op->urgency);
}

void consumer_slots_serve(struct peer *peer)
{
    struct list without_slot; /* no pinned slot: other receives may need none */
    struct urgent_node *node;
    struct list_node *passed;
    if (peer->endpoint.state != PEER_EP_READY)
        return;
    list_init(&without_slot);
    while ((node = urgent_first(&peer_in(peer)->slots_waiting)) != NULL) {
        tryst_op *op = container_of(node, tryst_op, slot_node);
        uint32_t before = op->run->next;
        bool full = recv_run_post(op, op->run);
        bool posted = op->run->next != before;
        if (!posted && full && !run_is_staged(op))
            break; /* no slot is free now */
        urgent_remove(node);
        if (posted)
            records_queue(op, QUEUED_DONE);
        else if (full)
            list_push_back(&without_slot, &node->node);
        /* Else the flow has no memory for its next slice; flow_place_again queues it
         * again. */
    }
    while ((passed = list_pop_front(&without_slot)) != NULL) {
        node = urgent_node_of(passed);
        urgent_push(&peer_in(peer)->slots_waiting, node, node->urgency);
    }
}

/* True if a receive that is not less urgent waits for slots. */
static bool others_go_first(const tryst_op *op)
{
    const struct urgent_node *first = urgent_first(&peer_in(op->peer)->slots_waiting);
    return first && !urgency_before(&op->urgency, first->urgency);
}

void recv_run_repost(tryst_op *op, struct recv_run *run)
{
    if (run_has_next(op, run) && (others_go_first(op) || recv_run_post(op, run)))
        slots_wait(op);
}

void recv_run_serve(tryst_op *op)
{
    if (op->run->next >= op->run->slices)
        return;
    slots_wait(op);
    consumer_slots_serve(op->peer);
}

void recv_run_slot_back(struct peer *peer, struct recv_slice *slice)
{
    struct recv_run *run = slice->op->run;
    bool is_announced = slice_is_announced(run, slice->index);
    slice->posted = false;
    slots_ready_add(peer, run, -(int32_t)is_announced);
    peer_in(peer)->slots_ahead -= !is_announced;
    run->ahead -= !is_announced;
    run->outstanding--;
    peer->rdv->bulk.moving--;
}

void recv_run_advance(struct recv_run *run, struct recv_slice *slice)
{
    struct pool *slots = slice->op->rdv->recv_slices;
    slice->arrived = true;
    while ((slice = slot_first(run)) != NULL && slice->arrived) {
        run->upto++;
        slot_drop(slots, run);
    }
}
