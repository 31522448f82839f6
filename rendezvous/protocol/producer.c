/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The producing side: sends meet the WANTs of their consumer.
 *
 * Idea: a send leaves in one of three ways. Small and with credit: as DATA, ahead of any
 * WANT. Small and wanted: as DATA that answers the WANT. Large and wanted: as a transfer
 * that the scheduler starts slice by slice. Every failure of a send travels as DATA
 * with a status and no bytes, so the operation itself carries the answer and no queue
 * can fill.
 *
 * Invariant: every WANT that is read here is answered exactly once: by DATA, by its bulk,
 * by an OFFER (unknown shape), or by CANCELED, CLOSED or DEFERRED.
 */
#include <assert.h>
#include <string.h>

#include "closed.h"
#include "commsched/sched/sched.h"
#include "core/memory/alloc.h"
#include "core/text/hash.h"
#include "op_device.h"
#include "producer.h"
#include "rendezvous/op/deadline.h"
#include "rendezvous/op/engine.h"
#include "rendezvous/peer/abort.h"
#include "rendezvous/peer/fault.h"
#include "rendezvous/protocol/outcome/shape.h"
#include "rendezvous/protocol/wire/wire_decode.h"
#include "send_run.h"
#include "want.h"

/* ---- sends leave ------------------------------------------------------------------- */

/* Queue the DATA of a small device send: its bytes are in the slot, or the copy has
 * failed. */
static void send_fetched(tryst_op *op, tryst_status status)
{
    if (status != TRYST_OK && op->fail == TRYST_OK)
        op_cause_set(op, cause_own(op->rdv, status),
                     "cannot copy the tensor from the device");
    if (op->fail != TRYST_OK) {
        op_device_slot_drop(op);
        op_report_fail(op);
    }
    records_queue(op, QUEUED_DATA);
}

/* Keep the send among those of its key until its DATA is acknowledged. So a WANT that
 * crosses the DATA is known from one for a number that was skipped. */
__attribute__((noinline)) static void send_keep(tryst_op *op)
{
    if (!list_linked(&op->queued.node))
        queue_insert(&op->entry->sends, &op->queued);
}

/* Let the send leave as DATA; a `status` other than TRYST_OK replaces the bytes. True:
 * the caller sends the DATA or queues it. */
static inline bool send_inline_start(tryst_op *op, tryst_status status)
{
    if (__builtin_expect(op->entry->is_sparse, 0))
        send_keep(op);
    else
        list_remove(&op->queued.node);
    op->fail = status;
    /* The WANT that the OFFER requested has come. */
    op->records &= (uint8_t)~QUEUED_OFFER;
    op_state_set(op, OP_INLINE);
    if (__builtin_expect(!op->device, 1) || status != TRYST_OK || !op->bytes)
        return true;
    op_device_fetch(op, send_fetched); /* DATA leaves from host memory */
    return false;
}

/* Queue DATA; a `status` other than TRYST_OK replaces the bytes. */
static inline void send_inline(tryst_op *op, tryst_status status)
{
    if (send_inline_start(op, status))
        records_queue(op, QUEUED_DATA);
}

/* Let the send wait for a WANT of its number or, if it is small, for eager credit. */
static void send_post(tryst_op *op)
{
    if (op->state == OP_SUBMITTED) {
        op_state_set(op, OP_POSTED);
        queue_insert(&op->entry->sends, &op->queued);
    }
    bool small = op->bytes <= op->rdv->set.eager_max_bytes || op->flags & TRYST_OP_DEAD;
    struct peer *peer = op->peer;
    urgent_push(small ? &peer_out(peer)->blocked_sends : &peer_out(peer)->posted_sends,
                &op->deferred_node, &op->urgency);
    if (small)
        peer_idle_later(peer); /* the idle pass sends BLOCKED if the send still waits */
    producer_request_later(op);
}

/* Send the shape to the receive that requested it, and wait for the WANT that
 * follows. */
static void send_offer_shape(struct want *want, tryst_op *op)
{
    op->want_id = want->id;
    want_free(want);
    send_post(op);
    records_queue(op, QUEUED_OFFER);
}

/* True unless the flow has slices and the peer cuts them differently than the plan. */
static bool flow_is_cut_so(const tryst_op *op, const struct want *want)
{
    return !op->flow || op->bytes <= op->rdv->set.eager_max_bytes ||
           want->transfer.slice_bytes == op->flow->slice_bytes;
}

/* Compare the send with the WANT. Returns the status with which both ends fail, or
 * TRYST_OK. */
static tryst_status match_check(const struct want *want, const tryst_op *op)
{
    if (op->state == OP_VOID)
        return op->final;
    if (op->flags & TRYST_OP_DEAD)
        return TRYST_E_DEAD;
    if (!flow_shapes_equal(want_flow_shape(want), op_shape_of(op)))
        return TRYST_E_MISMATCH;
    if (want->flags & RECORD_ALLOC)
        return TRYST_OK;
    bool fits = want->dtype == op->tensor.dtype && want->transfer.bytes == op->bytes &&
                flow_is_cut_so(op, want);
    return fits ? TRYST_OK : TRYST_E_MISMATCH;
}

static struct shape want_shape(const struct want *want)
{
    return (struct shape){want->transfer.bytes, want->dtype, want_flow_shape(want)};
}

/* Fail the send: the receive of its number was given up. */
static void match_void(struct want *want, tryst_op *op)
{
    struct cause cause = cause_of_ends(op, want->cause);
    op_cause_explain(op, cause, peer_text_of(want->text));
    op_report(op, cause.status, cause.origin_rank, cause.origin_status, NULL);
    want_unpark(want);
    want_maybe_free(want);
    op_end(op);
}

static void producer_match(struct want *want, tryst_op *op)
{
    want_unpark(want);
    list_remove(&op->waiting_node);
    if (urgent_remove(&op->deferred_node) && op->state == OP_VOID)
        peer_out(op->peer)->failures_count--;
    if (want->flags & RECORD_VOID) {
        match_void(want, op);
        return;
    }
    tryst_status status = match_check(want, op);
    bool small = op->bytes <= op->rdv->set.eager_max_bytes;
    if (status == TRYST_OK && !small && !(want->flags & RECORD_ALLOC)) {
        send_run_begin(want, op);
    } else if (status == TRYST_OK && !small) {
        send_offer_shape(want, op);
    } else {
        if (status == TRYST_E_MISMATCH && op->state != OP_VOID)
            op_mismatch_explain(op, want_shape(want));
        send_inline(op, status);
        want_free(want);
    }
}

/* Return the eager credit that DATA ahead of its WANT takes. A failure, the only such
 * DATA of a large tensor, carries no bytes. */
static uint64_t eager_charge(const tryst_op *op)
{
    bool empty = op->flags & TRYST_OP_DEAD || op->bytes > op->rdv->set.eager_max_bytes;
    return EAGER_OVERHEAD_BYTES + (empty ? 0 : op->bytes);
}

/* Take the eager credit of the send. False: not enough is left. */
static inline bool eager_take(tryst_op *op)
{
    uint64_t used = peer_out(op->peer)->eager_used + eager_charge(op);
    if (used > op->rdv->set.eager_credit_bytes)
        return false;
    peer_out(op->peer)->eager_used = used;
    op->eager = true;
    return true;
}

/* Let a small send with credit leave ahead of its WANT. False: it is not one. `*ready_p`:
 * the caller sends the DATA or queues it. */
static inline bool send_eager(tryst_op *op, bool *ready_p)
{
    bool dead = op->flags & TRYST_OP_DEAD;
    if ((!dead && op->bytes > op->rdv->set.eager_max_bytes) || !eager_take(op))
        return false;
    op->rdv->counters.data_eager++;
    *ready_p = send_inline_start(op, dead ? TRYST_E_DEAD : TRYST_OK);
    return true;
}

/* Send the failure of a flow's send ahead of its WANT, as DATA with a status. False: no
 * eager credit is left. */
static bool failure_send(tryst_op *op)
{
    if (!eager_take(op))
        return false;
    send_inline(op, op->final);
    return true;
}

void producer_unblock_some(struct peer *peer)
{
    struct urgent_node *node;
    while ((node = urgent_first(&peer_out(peer)->blocked_sends)) != NULL) {
        tryst_op *op = container_of(node, tryst_op, deferred_node);
        bool failed = op->state == OP_VOID;
        bool ready = false;
        if (failed ? !failure_send(op) : !send_eager(op, &ready))
            return;
        if (ready)
            records_queue(op, QUEUED_DATA);
        urgent_remove(node);
        list_remove(&op->waiting_node);
        peer_out(peer)->failures_count -= failed;
    }
}

/* Give the send its number within the key. */
static void send_number(tryst_op *op)
{
    op->queued.seq = op->entry->send_next++;
    peer_connect_start(op->peer);
}

/* Queue a send that is held: its number is taken, its bytes are not ready. */
static void send_queue_held(tryst_op *op)
{
    op_state_set(op, OP_POSTED);
    queue_insert(&op->entry->sends, &op->queued);
}

/* Match the send, let it leave, or let it wait. True: the caller sends its DATA or queues
 * it. Inlined into producer_submit: a call costs each message six instructions. */
__attribute__((always_inline)) static inline bool send_release(tryst_op *op)
{
    bool ready = false;
    struct want *want = want_find(op->entry, op->queued.seq);
    if (want) {
        producer_match(want, op);
    } else if (!send_eager(op, &ready)) {
        send_post(op);
        if (peer_out(op->peer)->deferred) {
            op->want_id = 0;
            records_queue(op, QUEUED_OFFER);
        }
    }
    return ready;
}

/* Match a held send, which has failed, with the WANT that was parked beside it. */
static void send_void_match(tryst_op *op)
{
    struct want *want = want_find(op->entry, op->queued.seq);
    if (want)
        producer_match(want, op);
}

/* Continue a held send: its device is ready for it, or has failed with `status`. */
static void send_released(tryst_op *op, tryst_status status)
{
    if (status == TRYST_OK) {
        producer_release(op);
        return;
    }
    op_report(op, status, op->rdv->group->roster.rank, status, op_device_why(op));
    op_state_set(op, OP_VOID);
    send_void_match(op);
}

bool producer_submit(tryst_op *op)
{
    send_number(op);
    if (__builtin_expect(!op->device, 1) || !op_device_hold(op, send_released))
        return send_release(op);
    send_queue_held(op);
    return false;
}

void producer_release(tryst_op *op)
{
    if (send_release(op))
        records_queue(op, QUEUED_DATA);
}

/* True if a WANT with these flags and this shape waits until the held send `op` is
 * ready. A WANT that was given up does not wait. Neither does a WANT of a different
 * collective: the peer may wait for a part that this rank's collective does not have, so
 * both operations end now. */
static bool held_waits(const tryst_op *op, uint8_t flags, const struct flow_shape *shape)
{
    return !(flags & RECORD_VOID) && flow_shapes_equal(shape, op_shape_of(op));
}

void producer_submit_held(tryst_op *op)
{
    send_number(op);
    send_queue_held(op);
    producer_await(op);
    struct want *want = want_find(op->entry, op->queued.seq);
    if (want && !held_waits(op, want->flags, want_flow_shape(want)))
        producer_match(want, op);
}

/* ---- WANTs arrive ------------------------------------------------------------------ */

static void want_refuse(struct peer *peer, const struct record_want *rec, uint8_t type,
                        tryst_status status, int32_t origin_rank)
{
    peer_in(peer)->wants_refused++;
    if (type == RECORD_DEFERRED) {
        peer_out(peer)->deferred = true;
        peer->rdv->counters.wants_deferred++;
    }
    peer_answer(peer, &(struct answer){.id = rec->id,
                                       .step = rec->step,
                                       .status = (int16_t)status,
                                       .origin_rank = origin_rank,
                                       .type = type,
                                       .for_want = true});
}

static struct want *want_open(struct peer *peer, struct entry *entry,
                              const struct record_want *rec)
{
    struct want *want = pool_get(peer->rdv->wants);
    if (!want)
        return NULL;
    memset(want, 0, sizeof *want);
    want->peer = peer;
    want->parked.entry = entry;
    want->id = rec->id;
    hash_table_add(&peer_in(peer)->wants, &want->by_id, hash_keyed_id(rec->id));
    want->parked.seq = rec->seq;
    want->dtype = rec->dtype;
    want->flags = rec->header.flags;
    want->step = rec->step;
    if (want->flags & RECORD_VOID) {
        want->cause = cause_in_want(peer, rec);
        want_text_set(want, wire_want_text(rec));
    }
    want->transfer.bytes = rec->bytes;
    want->transfer.slice_bytes = rec->slice_bytes;
    want->transfer.slices =
        (uint32_t)((rec->bytes + rec->slice_bytes - 1) / rec->slice_bytes);
    want->transfer.ready = want->transfer.slices;
    want->transfer.posted = rec->posted;
    want->priority = rec->priority;
    if (want->flags & RECORD_SHAPE)
        want->shape = *wire_shape(&rec->header);
    list_push_back(&peer_in(peer)->wants_list, &want->peer_node);
    return want;
}

/* Answer a receive that its consumer has given up: the cause is the consumer's. */
static void want_answer_void(struct want *want)
{
    want_answer(want, RECORD_CANCELED, want->cause, NULL);
}

static void want_park(struct want *want)
{
    struct peer *peer = want->peer;
    parked_add(&want->parked);
    peer_in(peer)->parked_count++;
    peer->rdv->counters.wants_parked++;
    if (want->parked.entry->scope->state == SCOPE_EARLY) {
        want->early = true;
        peer_in(peer)->early_wants++;
    }
    if (want->flags & RECORD_VOID)
        want_answer_void(want);
}

/* True if another WANT may be parked. `scope` NULL: the step is not open here yet. */
static bool want_has_room(const struct peer *peer, const struct scope *scope)
{
    const struct rendezvous_settings *set = &peer->rdv->set;
    bool early = !scope || scope->state == SCOPE_EARLY;
    return peer_in(peer)->parked_count < set->parked_max &&
           (!early || peer_in(peer)->early_wants < set->early_max);
}

/* True if the WANT requests slices that no rank with these settings requests: its bulk
 * would keep urgent slices from the wire. (A flow's slices are those of the plan.) */
static bool want_slices_are_huge(const struct rendezvous *rdv,
                                 const struct record_want *rec)
{
    uint64_t set = rdv->set.slice_bytes;
    uint8_t other = RECORD_VOID | RECORD_ALLOC | RECORD_SHAPE;
    return !(rec->header.flags & other) && rec->bytes > rdv->set.eager_max_bytes &&
           rec->slice_bytes > (set ? set : SCHED_SLICE_MAX);
}

/* Match, park or defer a WANT of a live scope. */
static void want_handle(struct peer *peer, struct entry *entry,
                        const struct record_want *rec)
{
    bool sent = rec->seq < entry->send_next;
    tryst_op *op = sent ? op_find(&entry->sends, rec->seq) : NULL;
    /* The send's DATA is in flight and answers this WANT. A WANT for a number that was
     * skipped is parked until its receive or the step ends. */
    if (sent && (op ? op->state == OP_INLINE : !entry->is_sparse))
        return;
    if (rec->seq > entry->send_next && rec->seq - entry->send_next > NUMBERS_AHEAD_MAX) {
        peer_fault(peer, PEER_FAULT_WANT_AHEAD, NULL);
        return;
    }
    bool held = op && (op_device_is_held(op) ||
                       (flow_is_held(op) &&
                        held_waits(op, rec->header.flags, wire_shape(&rec->header))));
    if (held)
        op = NULL; /* not ready: the WANT is parked as if the send did not exist */
    if (!op && want_find(entry, rec->seq)) {
        peer_fault(peer, PEER_FAULT_WANT_TWICE, NULL);
        return;
    }
    struct want *want =
        op || want_has_room(peer, entry->scope) ? want_open(peer, entry, rec) : NULL;
    if (!want) {
        want_refuse(peer, rec, RECORD_DEFERRED, TRYST_OK, -1);
        /* No memory for the want, but its send is ready: request another WANT. */
        if (op) {
            op->want_id = 0;
            records_queue(op, QUEUED_OFFER);
        }
    } else if (op && (want->flags & RECORD_VOID)) {
        want_answer_void(want);
        producer_match(want, op);
    } else if (op)
        producer_match(want, op);
    else
        want_park(want);
}

/* Match a WANT of a closing step with its send, which failed or has DATA in flight.
 * False: no such send exists. */
static bool want_closing(struct peer *peer, struct scope *scope,
                         const struct record_want *rec, const struct record_key *named)
{
    struct entry *entry = entry_find(scope, named->hash, named->string, named->bytes);
    bool sent = entry && entry->key->dst_rank == peer->rank &&
                entry->key->src_rank == peer->rdv->group->roster.rank &&
                rec->seq < entry->send_next &&
                (!entry->is_sparse || op_find(&entry->sends, rec->seq));
    if (sent)
        want_handle(peer, entry, rec);
    return sent;
}

void producer_want(struct peer *peer, const struct record_want *rec)
{
    const char *key = (const char *)(rec + 1);
    struct rendezvous *rdv = peer->rdv;
    struct scope *scope = scope_find(&rdv->scopes, rec->step);
    const struct cause refusal = step_refuses(rdv, scope, rec->step);
    tryst_status status = refusal.status;
    if (want_by_id(peer, rec->id)) {
        peer_fault(peer, PEER_FAULT_WANT_ID, NULL);
        return;
    }
    if (want_slices_are_huge(rdv, rec)) {
        peer_fault(peer, PEER_FAULT_WANT_SLICES, NULL);
        return;
    }
    struct record_key named = {hash_keyed(key, rec->key_bytes), key, rec->key_bytes,
                               rdv->group->roster.rank, peer->rank};
    peer_in(peer)->wants_got++;
    peer_flush_later(peer); /* sends wants_taken once half of the quota is due */
    bool closed = status == TRYST_E_CLOSED || status == TRYST_E_LEFT;
    if (closed && scope && want_closing(peer, scope, rec, &named))
        return;
    if (status != TRYST_OK) {
        want_refuse(peer, rec, closed ? RECORD_CLOSED : RECORD_CANCELED, status,
                    refusal.origin_rank);
        return;
    }
    bool room = want_has_room(peer, scope);
    if (!scope && room)
        scope = scope_open_early(&rdv->scopes, rec->step);
    if (!scope) {
        want_refuse(peer, rec, RECORD_DEFERRED, TRYST_OK, -1);
        return;
    }
    /* Without room no entry is made: a new entry has no send for the WANT. */
    struct entry *entry =
        entry_resolve(scope, &rdv->group->roster, &named, room, &status);
    if (!entry)
        scope_drop_early(scope);
    if (!entry && status == TRYST_E_NOMEM)
        want_refuse(peer, rec, RECORD_DEFERRED, TRYST_OK, -1);
    else if (!entry)
        want_refuse(peer, rec, RECORD_CANCELED, status, rdv->group->roster.rank);
    else
        want_handle(peer, entry, rec);
}

void producer_cancel(struct peer *peer, const struct record_answer *cancel)
{
    struct want *want = want_by_id(peer, cancel->id);
    if (!want || list_linked(&want->answer_node))
        return; /* the answer is queued */
    char text[CAUSE_TEXT_BYTES];
    struct cause cause = cause_in_answer(peer, want->send, cancel);
    if (want->send) {
        /* Cancelled between two slices. Once all slices have started, the cancel is too
         * late, and the bulk is the answer. */
        if (want->transfer.next < want->transfer.slices)
            op_fail_from(want->send, cause,
                         cause_sentence(cause, wire_answer_text(cancel), text));
        return;
    }
    want->flags |= RECORD_VOID;
    want->cause = cause;
    want_text_set(want, wire_answer_text(cancel));
    want_answer_void(want);
    tryst_op *op = op_find(&want->parked.entry->sends, want->parked.seq);
    /* The held send of a flow ends at once: its bytes may not be ready for long. */
    if (op && flow_is_held(op))
        producer_match(want, op);
}

void producer_raise(struct peer *peer, const struct record_answer *raise)
{
    struct want *want = want_by_id(peer, raise->id);
    int32_t priority = (int32_t)raise->posted;
    if (!want)
        return; /* the receive has ended */
    bool spoke = want->flags & RECORD_PRIORITY && !(want->flags & RECORD_BACKGROUND);
    if (!spoke || priority < want->priority)
        want->priority = priority;
    if (!(want->flags & (RECORD_PRIORITY | RECORD_BACKGROUND)))
        want->flags |= (uint8_t)RECORD_RAISED;
    want->flags = (uint8_t)((want->flags | RECORD_PRIORITY) & ~RECORD_BACKGROUND);
    if (want->send && want->send->state == OP_MATCHED)
        sched_raise(peer->rdv->sched, &want->transfer,
                    urgency_sort_key(URGENCY_TRAINING, want->priority) &
                        peer->rdv->set.urgency_mask);
}

/* ---- acknowledgements -------------------------------------------------------------- */

/* Release the eager credit of a send: its DATA has been answered. */
static void eager_return(tryst_op *op)
{
    if (op->eager)
        peer_out(op->peer)->eager_used -= eager_charge(op);
    op->eager = false;
}

/* Report a send: the consumer has finished with its DATA. */
static inline void send_done(tryst_op *op, struct cause cause)
{
    eager_return(op);
    op->records &= (uint8_t)~QUEUED_CANCEL;
    op_report(op, cause.status, cause.origin_rank, cause.origin_status, NULL);
}

static tryst_op *sent_op(struct stream_send *send)
{
    return send ? container_of(send, tryst_op, sent) : NULL;
}

void producer_acked(struct stream_send *send)
{
    tryst_op *op = sent_op(send);
    send_done(op, op_fail_cause(op));
    op_end(op);
}

void producer_data_done(struct peer *peer, const struct record_answer *done)
{
    tryst_op *op = sent_op(stream_out_remove(&peer_out(peer)->stream, done->id));
    tryst_status status = done->header.status;
    if (!op) {
        peer_fault(peer, PEER_FAULT_DATA_DONE, NULL);
        return;
    }
    struct cause cause = cause_own(op->rdv, TRYST_OK);
    if (status != TRYST_OK) {
        cause = cause_in_answer(peer, op, done);
        op_cause_explain(op, cause, wire_answer_text(done));
        /* The consumer may have had no memory for the key. */
        name_withdraw(&peer_out(peer)->names, op->entry);
    }
    send_done(op, cause);
    if (status == TRYST_E_NOMEM && !done->upto && op->scope->state != SCOPE_CLOSING) {
        /* No receive took the DATA: its number is still to be consumed. */
        op_state_set(op, OP_VOID);
        send_keep(op);
    } else {
        if (status == TRYST_E_NOMEM && !done->upto)
            producer_failure_drop(op);
        op_end(op);
    }
}

void producer_data_kept(struct peer *peer, uint64_t number)
{
    if (!stream_out_keep(&peer_out(peer)->stream, number))
        peer_fault(peer, PEER_FAULT_DATA_KEPT, NULL);
}

void producer_data_canceled(struct peer *peer, uint64_t number)
{
    tryst_op *op = sent_op(stream_out_find(&peer_out(peer)->stream, number));
    if (!op)
        return;
    /* The credit stays taken until DONE: at the consumer the number still waits for its
     * receive. */
    if (op->take_back == TRYST_OK)
        peer_fault(peer, PEER_FAULT_DATA_RETURNED, NULL);
    else
        op_report(op, op->take_back, op->origin_rank, op_origin_status(op, op->take_back),
                  NULL);
}

/* ---- failure ----------------------------------------------------------------------- */

/* Note the failure of a send while its bytes are copied out of the caller's memory: the
 * send fails when the copy has ended. */
static void fail_fetching(tryst_op *op, struct cause cause, const char *text)
{
    if (op->fail == TRYST_OK)
        op_cause_set(op, cause, text);
}

/* Request the consumer to drop DATA that has left, which succeeds if no receive has taken
 * the DATA. DATA that answers a WANT is always taken. */
static void data_take_back(tryst_op *op, struct cause cause, const char *text)
{
    if (!op->eager || op->reported || op->take_back != TRYST_OK)
        return;
    op_origin_set(op, cause, text);
    op->take_back = cause.status;
    records_queue(op, QUEUED_CANCEL);
}

/* True if the peer is to receive the failure of `op` by a record. An abort, and the close
 * of this group, reach the peer by another way. */
static bool failure_is_news(const tryst_op *op)
{
    return op->state == OP_VOID && op->scope->abort_status == TRYST_OK &&
           op->final != TRYST_E_CONTEXT;
}

/* True if the peer is to receive the failure of `op` ahead of its WANT. After the close
 * of the step, CLOSED answers the WANT if this rank's own cancel is the cause. */
static bool failure_is_sent(const tryst_op *op)
{
    bool own = op->origin_rank == op->rdv->group->roster.rank;
    return failure_is_news(op) &&
           (op->scope->state == SCOPE_OPEN || !own || op->final != TRYST_E_CANCELED);
}

void producer_failure_drop(tryst_op *op)
{
    struct entry *entry = op->entry;
    list_remove(&op->waiting_node);
    if (urgent_remove(&op->deferred_node))
        peer_out(op->peer)->failures_count--;
    if (op->queued.seq < entry->send_next)
        entry->send_next = op->queued.seq;
}

/* Send the failure of a flow, in VOID, as DATA with a status. Without eager credit the
 * failure waits for credit or for the WANT, also after the close (closed.c). */
static void flow_send_failure(tryst_op *op)
{
    struct peer *peer = op->peer;
    if (failure_send(op) || peer_out(peer)->failures_count == FAILURES_MAX)
        return;
    peer_out(peer)->failures_count++;
    urgent_push(&peer_out(peer)->blocked_sends, &op->deferred_node, &op->urgency);
    peer_idle_later(peer); /* an idle pass sends BLOCKED */
    producer_request_later(op);
}

/* Fail a posted send; VOID keeps its number. */
static void fail_posted(tryst_op *op, struct cause cause, const char *text)
{
    bool flow = op->flow != NULL, device = op_device_is_held(op);
    if (device)
        op_device_unhold(op);
    op_report(op, cause.status, cause.origin_rank, cause.origin_status, text);
    op_state_set(op, OP_VOID);
    urgent_remove(&op->deferred_node);
    list_remove(&op->waiting_node);
    if (flow || device)
        send_void_match(op);
    /* Ahead of its WANT, since this rank may close the step before the WANT comes. */
    if (flow && failure_is_sent(op))
        flow_send_failure(op);
}

void producer_fail_late(tryst_op *op, struct cause cause, const char *text)
{
    op_state_set(op, OP_POSTED);
    queue_insert(&op->entry->sends, &op->queued);
    op_report(op, cause.status, cause.origin_rank, cause.origin_status, text);
    op_state_set(op, OP_VOID);
    if (failure_is_news(op))
        flow_send_failure(op);
    if (op->state == OP_VOID && !urgent_queued(&op->deferred_node))
        op_end(op);
}

void producer_fail(tryst_op *op, struct cause cause, const char *text)
{
    tryst_status status = cause.status;
    bool gives_up = status == TRYST_E_CANCELED || status == TRYST_E_DEADLINE;
    switch (op->state) {
    case OP_POSTED:
        /* A queued OFFER still leaves; the WANT that follows it gets the answer. */
        fail_posted(op, cause, text);
        break;
    case OP_INLINE:
        if (op_device_is_copying(op)) {
            fail_fetching(op, cause, text);
        } else if (op->records & QUEUED_DATA) {
            op->fail = op->reported ? op->fail : status;
            op_report(op, status, cause.origin_rank, cause.origin_status, text);
        } else if (gives_up) {
            data_take_back(op, cause, text);
        } else { /* the bytes were copied: the buffer is free */
            op_report(op, status, cause.origin_rank, cause.origin_status, text);
        }
        break;
    case OP_MATCHED:
        /* Cancelled between two slices. Once all slices have started, the cancel is too
         * late. */
        if (!gives_up || op->want->transfer.next < op->want->transfer.slices)
            send_run_fail(op, cause, text);
        break;
    default: break;
    }
}

/* Fail a send that waits for a WANT, or for credit. */
static void send_fail(tryst_op *op, struct cause cause, const char *text)
{
    if (op->state != OP_VOID) {
        producer_fail(op, cause, text);
        return;
    }
    producer_failure_drop(op);
    op_end(op);
}

/* Fail the sends of the step to the peer that wait for a WANT, or for credit. */
static void sends_fail(struct peer *peer, const struct scope *scope, struct cause cause,
                       const char *text)
{
    list_for_each_safe (&peer_out(peer)->waiting_sends, node, after) {
        tryst_op *op = container_of(node, tryst_op, waiting_node);
        peer->rdv->counters.closed_walked++;
        assert(urgent_queued(&op->deferred_node) || flow_is_held(op));
        if (op->scope == scope)
            send_fail(op, cause, text);
    }
}

void producer_step_closed(struct peer *peer, const struct record_answer *closed)
{
    char text[CAUSE_TEXT_BYTES];
    struct cause cause = {TRYST_E_CLOSED, peer->rank, TRYST_E_CLOSED};
    struct scope *scope = scope_find(&peer->rdv->scopes, closed->id);
    if (!scope || !scope_awaits(scope, peer))
        return;
    if (closed->header.status == TRYST_E_ABORTED)
        cause = cause_in_answer(peer, NULL, closed);
    else if (closed->header.status == TRYST_E_LEFT)
        cause.status = cause.origin_status = TRYST_E_LEFT;
    const char *sentence = cause_sentence(cause, wire_answer_text(closed), text);
    if (cause.status == TRYST_E_ABORTED)
        abort_report(peer->rdv, scope, cause, sentence ? sentence : "", peer->rank);
    rank_set_remove(&scope->awaited, peer->rank);
    sends_fail(peer, scope, cause, sentence);
}

void producer_peer_gone(tryst_op *op)
{
    struct want *want = op->want;
    list_remove(&op->waiting_node);
    eager_return(op);
    if (op->state == OP_VOID)
        producer_failure_drop(op);
    if (op_device_is_held(op))
        op_device_unhold(op);
    if (op->device)
        op_device_slot_drop(op);
    if (want) {
        send_run_forget(want);
        assert(want->in_flight == 0);
        want->send = NULL;
        op->want = NULL;
    }
    if (op->state == OP_ENDING) /* a derived error never replaces a cause */
        op_report_fail(op);
    op_report(op, op->peer->liveness.gone_status, op->peer->rank,
              op->peer->liveness.gone_status, op->peer->liveness.gone_text);
    op_end(op);
}
