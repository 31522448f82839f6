/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One pass of the engine does everything that is due; see pass.h.
 *
 * Idea: a pass runs submissions, lets the rails deliver, frees what ended, lets the
 * scheduler start slices, packs queued records into frames and then completes operations,
 * in this order: what becomes ready in a pass leaves in the same pass.
 *
 * Invariant: operations complete at the end of a pass, and peers and scopes end in
 * pass_reap, so no handler finds an object freed while using it.
 */
#include "pass.h"

#include "ack_timer.h"
#include "commsched/sched/sched.h"
#include "core/os/descriptors.h"
#include "live_gather.h"
#include "overdue.h"
#include "rendezvous/op/deadline.h"
#include "rendezvous/op/engine.h"
#include "rendezvous/peer/abort.h"
#include "rendezvous/peer/endpoint.h"
#include "rendezvous/peer/liveness.h"
#include "rendezvous/peer/peer.h"
#include "rendezvous/peer/tree.h"
#include "rendezvous/protocol/closed.h"
#include "rendezvous/protocol/consumer.h"
#include "rendezvous/protocol/frames.h"
#include "rendezvous/protocol/op_device.h"
#include "rendezvous/protocol/protocol.h"
#include "submission.h"

/* Passes between two reads of the clock. */
enum { PASSES_PER_CLOCK = 64 };
/* Turns of the acknowledgement timer with nothing to send, after which it stops. A turn
 * costs a wake-up of the timer's thread, as much as a call that starts the timer anew;
 * where ranks compute between small tensors, each turn takes a core from them. */
enum { ACK_TIMER_IDLE = 2 };
/* The most polls (of 32 events each) that a rank makes after a long gap, before its
 * timers run. */
enum { LATE_POLLS = 64 };

/* Copies of the rails and sums of the engine share the time of a pass, the most urgent
 * first; at equal urgency they take turns, by what the engine has left. */
static int rails_progress(struct rendezvous *rdv)
{
    int count = 0;
    rdv->bulk.copied_bytes = 0;
    for (uint32_t i = 0; i < rdv->rails_count; i++) {
        struct rail *rail = rdv->rails[i].rail;
        rail->ahead = rdv->coll_calls.left ? *rdv->coll_calls.left : NULL;
        count += rail->ops->progress(rail);
        rdv->bulk.copied_bytes += rail->copied_bytes;
    }
    return count;
}

static void close_report(tryst_op *close_op)
{
    if (!close_op)
        return;
    op_report(close_op, TRYST_OK, -1, TRYST_OK, NULL);
    op_end(close_op);
}

static void scope_end(struct rendezvous *rdv, struct scope *scope)
{
    tryst_op *close_op = scope->close_op;
    abort_note_scope(rdv, scope);
    scope_free(scope);
    close_report(close_op);
}

static bool ops_reported(const struct list *ops)
{
    list_for_each_safe (ops, node, after)
        if (!container_of(node, tryst_op, scope_node)->reported)
            return false;
    return true;
}

/* Report the close of a step when all its operations are reported. The close does not
 * wait for failed sends that stay in the scope until the peer closes its step. */
static void close_settle(struct scope *scope)
{
    if (!ops_reported(&scope->ops) || !ops_reported(&scope->warned))
        return;
    close_report(scope->close_op);
    scope->close_op = NULL;
}

void pass_reap(struct rendezvous *rdv)
{
    struct list_node *node;
    rdv->reap = false;
    if (!list_empty(&rdv->scopes.reported))
        aborts_reported_run(rdv);
    if (rdv->aborts_due)
        aborts_send_all(rdv);
    if (!list_empty(&rdv->device_loads))
        op_devices_go_on(rdv);
    if (rdv->group)
        list_for_each_safe (&rdv->group->met, peer_node, peer_after)
            peer_ep_reap(container_of(peer_node, struct peer, node));
    while ((node = list_pop_front(&rdv->scopes.reap)) != NULL) {
        struct scope *scope = container_of(node, struct scope, reap_node);
        consumer_askers_answer(rdv, scope);
        close_settle(scope);
        if (list_empty(&scope->ops) && list_empty(&scope->warned))
            scope_end(rdv, scope);
    }
}

static int flush_all(struct rendezvous *rdv)
{
    struct list now;
    struct list_node *node;
    int count = 0;
    list_init(&now);
    list_append(&now, &rdv->flush); /* a peer without room joins the next pass */
    while ((node = list_first(&now)) != NULL)
        count += peer_flush(container_of(node, struct peer, flush_node));
    return count;
}

/* Queue for all peers what waits to go with other frames. */
static void idle_release(struct rendezvous *rdv)
{
    struct list_node *node;
    while ((node = list_first(&rdv->idle_peers)) != NULL)
        peer_queue_waiting(&container_of(node, struct channel, out.idle_node)->peer);
}

/* Send the WANTs of small receives, before the thread sleeps and at each tick. */
static void announce_all(struct rendezvous *rdv)
{
    struct list_node *node;
    while ((node = list_first(&rdv->unannounced_peers)) != NULL)
        peer_announce(&container_of(node, struct channel, in.unannounced_node)->peer);
}

__attribute__((cold, noinline)) static void tick(struct rendezvous *rdv, uint64_t now_ns)
{
    rdv->times.tick_ns = now_ns + TICK_NS;
    descriptors_low_refresh();
    if (rdv->join_again && rdv->group && rdv->leave.state == LEAVE_NONE)
        peer_tree_join(rdv);
    if (rdv->group)
        list_for_each_safe (&rdv->group->met, peer_node, peer_after)
            peer_tick(container_of(peer_node, struct peer, node), now_ns);
    announce_all(rdv);
    if (rdv->listener)
        link_listener_tick(rdv->listener, now_ns);
    stalls_warn(rdv, now_ns);
    if (rdv->live)
        live_tick(rdv->live, rdv, now_ns);
}

/* Drain input before time-outs and suspicions are judged: the links are not read in every
 * pass, so after a gap answers, or the end of a link, may have come. */
__attribute__((noinline, cold)) static int input_drain(struct rendezvous *rdv)
{
    int count = 0, more = 1;
    for (int i = 0; i < LATE_POLLS && more > 0; i++) {
        more = poller_run(rdv->poller, 0);
        if (more > 0)
            count += more + rails_progress(rdv);
    }
    return count;
}

static int timers_run(struct rendezvous *rdv)
{
    int count = 0;
    uint64_t now_ns = rendezvous_now(rdv);
    if (now_ns >= rdv->times.tick_ns ||
        clock_since_ns(rdv->times.timers_ns, now_ns) > 2 * TICK_NS)
        count = input_drain(rdv);
    rdv->times.timers_ns = now_ns;
    if (now_ns >= rdv->times.tick_ns)
        tick(rdv, now_ns);
    sched_timer(rdv->sched, now_ns);
    if (rdv->deadlines.count)
        count += deadlines_run(rdv, now_ns);
    idle_release(rdv); /* however busy the engine is */
    return count;
}

/* Start the acknowledgement timer unless it runs; false: it cannot run. */
static bool ack_timer_start(struct rendezvous *rdv)
{
    if (!rdv->acks.timer_runs && rdv->progress)
        rdv->acks.timer_runs = ack_timer_call(rdv);
    return rdv->acks.timer_runs;
}

static void leave_release(struct rendezvous *rdv)
{
    list_for_each_safe (&rdv->idle_peers, node, after) {
        struct peer *peer = &container_of(node, struct channel, out.idle_node)->peer;
        if (!peer_acks_wait(peer) || !ack_timer_start(rdv))
            peer_queue_waiting(peer);
    }
}

void pass_flush(struct rendezvous *rdv)
{
    if (!list_empty(&rdv->idle_peers))
        leave_release(rdv);
    if (!list_empty(&rdv->flush))
        flush_all(rdv);
    rdv->times.pass_ns = 0;
}

bool acks_send(struct rendezvous *rdv)
{
    rdv->acks.timer_idle = list_empty(&rdv->idle_peers) ? rdv->acks.timer_idle + 1 : 0;
    idle_release(rdv);
    flush_all(rdv);
    rdv->times.pass_ns = 0;
    if (rdv->acks.timer_idle < ACK_TIMER_IDLE)
        return true;
    rdv->acks.timer_idle = 0;
    rdv->acks.timer_runs = false;
    return false;
}

/* Detect a long gap between passes while bulk is in flight: input waited meanwhile, so
 * samples of the path are invalid. */
__attribute__((noinline)) static void pause_check(struct rendezvous *rdv)
{
    uint64_t before_ns = rdv->bulk.seen_ns;
    rdv->bulk.seen_ns = clock_now_ns(rdv->clock);
    if (!before_ns || rdv->bulk.seen_ns < before_ns + PAUSE_NS)
        return;
    rdv->bulk.pauses++;
    sched_pause(rdv->sched, NULL);
}

static int pass(struct rendezvous *rdv)
{
    if (rdv->bulk.moving)
        pause_check(rdv);
    rdv->times.pass_ns = 0;
    rdv->times.stamps_left = 0;
    rdv->ran_inline = false;
    int count = mpsc_empty(&rdv->submissions) ? 0 : submissions_run(rdv);
    count += rails_progress(rdv);
    if (++rdv->times.passes % PASSES_PER_CLOCK == 0 || rdv->times.tick_ns == 0)
        count += timers_run(rdv);
    if (rdv->reap)
        pass_reap(rdv);
    count += coll_calls_run(rdv);
    rdv->start_failed = false;
    count += sched_run(rdv->sched);
    if (!count)
        idle_release(rdv);
    if (!list_empty(&rdv->flush))
        count += flush_all(rdv);
    if (rdv->reap)
        pass_reap(rdv);
    return list_empty(&rdv->completed) ? count : count + op_complete_all(rdv);
}

void pass_clock_due(struct rendezvous *rdv)
{
    rdv->times.passes = PASSES_PER_CLOCK - 1;
}

int pass_run(struct rendezvous *rdv)
{
    uint64_t begin_ns = trace_now_ns(rdv->trace);
    int count = pass(rdv);
    rdv->times.pass_ns = 0; /* events may come long before the next pass */
    if (rdv->trace && count)
        trace_span(rdv->trace, "progress", NULL, begin_ns, trace_now_ns(rdv->trace), 0, 0,
                   0);
    return count;
}

tryst_status pass_arm(struct rendezvous *rdv)
{
    tryst_status worst = TRYST_OK;
    /* seq_cst: pairs with the load in rendezvous_queue. */
    atomic_store_explicit(&rdv->sleeping, 1, memory_order_seq_cst);
    if (!mpsc_empty(&rdv->submissions) || rdv->ran_inline)
        return TRYST_AGAIN;
    announce_all(rdv);
    idle_release(rdv);
    pass_flush(rdv);
    if (!list_empty(&rdv->completed) || rdv->reap)
        return TRYST_AGAIN;
    if (rdv->coll_calls.busy && rdv->coll_calls.busy(rdv->coll_calls.arg))
        return TRYST_AGAIN;
    rdv->copies_busy = false;
    rdv->bulk.seen_ns = 0; /* sleeping until an event is not a pause */
    for (uint32_t i = 0; i < rdv->rails_count; i++) {
        struct rail *rail = rdv->rails[i].rail;
        tryst_status status = rail->ops->arm(rail);
        if (status == TRYST_AGAIN)
            return status;
        if (status != TRYST_OK)
            worst = status;
        rdv->copies_busy |= rail->copies_busy > 0;
    }
    /* Frames and slices for which the transport had no room are tried again soon. */
    return list_empty(&rdv->flush) && !rdv->start_failed ? worst : TRYST_E_UNSUPPORTED;
}

/* Return the earlier of two times, of which 0 means none. */
static uint64_t earlier(uint64_t a_ns, uint64_t b_ns)
{
    return !a_ns || (b_ns && b_ns < a_ns) ? b_ns : a_ns;
}

uint64_t pass_next_ns(const struct rendezvous *rdv)
{
    uint64_t next_ns = deadline_next(rdv);
    uint64_t tick_at = rdv->group && rdv->group->roster.size > 1 ? rdv->times.tick_ns : 0;
    if (!tick_at && !list_empty(&rdv->scopes.all) && rdv->set.stall_warn_ns)
        tick_at = rdv->times.tick_ns;
    next_ns = earlier(next_ns, tick_at);
    next_ns = earlier(next_ns, sched_next_ns(rdv->sched));
    next_ns = earlier(next_ns, rdv->leave.until_ns);
    if (rdv->copies_busy)
        next_ns = earlier(next_ns, clock_now_ns(rdv->clock) + COPY_NAP_NS);
    if (rdv->coll_calls.nap_ns && *rdv->coll_calls.nap_ns)
        next_ns = earlier(next_ns, clock_now_ns(rdv->clock) + *rdv->coll_calls.nap_ns);
    return next_ns;
}

void pass_awake(struct rendezvous *rdv)
{
    /* relaxed: a submission that still reads 1 wakes once too often, which is
     * harmless. */
    atomic_store_explicit(&rdv->sleeping, 0, memory_order_relaxed);
}
