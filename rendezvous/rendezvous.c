/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rendezvous engine: one pass does everything that is due.
 *
 * Idea: a pass runs submissions, lets the rails deliver, frees what ended, lets the
 * scheduler start slices, packs queued records into frames and then completes operations,
 * in this order: what becomes ready in a pass leaves in the same pass.
 *
 * Invariant: operations complete at the end of a pass, and peers and scopes end in
 * rendezvous_reap, so no handler finds an object freed while using it.
 */
#include "rendezvous/rendezvous.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "commsched/sched/sched.h"
#include "core/memory/alloc.h"
#include "core/os/descriptors.h"
#include "core/os/fork.h"
#include "core/os/random.h"
#include "late.h"
#include "live_gather.h"
#include "membership.h"
#include "rendezvous/op/deadline.h"
#include "rendezvous/op/engine.h"
#include "rendezvous/peer/abort.h"
#include "rendezvous/peer/accept.h"
#include "rendezvous/peer/endpoint.h"
#include "rendezvous/peer/liveness.h"
#include "rendezvous/peer/messages.h"
#include "rendezvous/peer/tree.h"
#include "rendezvous/protocol/closed.h"
#include "rendezvous/protocol/consumer.h"
#include "rendezvous/protocol/eager.h"
#include "rendezvous/protocol/frames.h"
#include "rendezvous/protocol/op_device.h"
#include "rendezvous/protocol/protocol.h"
#include "rendezvous/protocol/records.h"
#include "rendezvous/protocol/recv_run.h"
#include "rendezvous/protocol/send_run.h"
#include "rendezvous/protocol/want.h"
#include "rendezvous/protocol/wire/wire.h"
#include "step.h"
#include "stream_wait.h"
#include "submission.h"

/* Passes between two reads of the clock. */
enum { PASSES_PER_CLOCK = 64 };
/* Turns of the acknowledgement timer with nothing to send, after which it stops. */
enum { ACK_TIMER_IDLE = 50 };
/* The most polls (of 32 events each) that a rank makes after a long gap, before its
 * timers run. */
enum { LATE_POLLS = 64 };
/* The most accepted connections that wait for their HELLO. */
enum { LINKS_PENDING_MAX = 64 };

/* Functions of the protocol and of steps that peer/ calls. */
static const struct peer_events peer_events = {.open = protocol_peer_open,
                                               .connect = protocol_peer_connect,
                                               .frame = records_read,
                                               .tick = protocol_peer_tick,
                                               .gone = protocol_peer_gone,
                                               .close = protocol_peer_close,
                                               .aborted = step_aborted};

/* ---- open and close ---------------------------------------------------------------- */

uint64_t rendezvous_eager_max(const struct config *config)
{
    uint64_t bytes = config_bytes(config, CONFIG_EAGER_MAX);
    return bytes < EAGER_BYTES_LIMIT ? bytes : EAGER_BYTES_LIMIT;
}

static void settings_read(struct rendezvous *rdv)
{
    const struct config *config = rdv->config;
    struct rendezvous_settings *set = &rdv->set;
    set->eager_max_bytes = rendezvous_eager_max(config);
    set->eager_credit_bytes = config_bytes(config, CONFIG_EAGER_CREDIT);
    set->slice_bytes = config_bytes(config, CONFIG_SLICE_BYTES);
    set->peer_timeout_ns = config_time_ns(config, CONFIG_PEER_TIMEOUT);
    set->connect_timeout_ns = config_time_ns(config, CONFIG_CONNECT_TIMEOUT);
    set->stall_warn_ns = config_time_ns(config, CONFIG_STALL_WARN);
    set->urgency_mask = config_enum(config, CONFIG_SCHED) == 0 ? ~0ull : 0;
    set->posted_slices = (uint32_t)config_int(config, CONFIG_POSTED_SLICES);
    set->wants_max = (uint32_t)config_int(config, CONFIG_WANTS_MAX);
    set->parked_max = (uint32_t)config_int(config, CONFIG_PARKED_MAX);
    set->early_max = (uint32_t)config_int(config, CONFIG_EARLY_MAX);
    set->frame_credits = (uint32_t)config_int(config, CONFIG_FRAME_CREDITS);
}

static tryst_status pools_open(struct rendezvous *rdv)
{
    tryst_status status = pool_open(sizeof(tryst_op), 64, &rdv->ops);
    if (status == TRYST_OK)
        status = pool_open(sizeof(struct want), _Alignof(struct want), &rdv->wants);
    if (status == TRYST_OK)
        status = pool_open(send_slice_bytes, 16, &rdv->slices);
    if (status == TRYST_OK)
        status = pool_open(sizeof(struct recv_slice), _Alignof(struct recv_slice),
                           &rdv->recv_slices);
    if (status == TRYST_OK)
        status = pool_open(sizeof(struct recv_run), _Alignof(struct recv_run),
                           &rdv->recv_runs);
    if (status == TRYST_OK)
        status = pool_open(sizeof(struct op_device), _Alignof(struct op_device),
                           &rdv->devices);
    if (status == TRYST_OK)
        status = pool_open(sizeof(tryst_step), _Alignof(tryst_step), &rdv->steps);
    for (unsigned i = 0; i < UNEXPECTED_CLASSES && status == TRYST_OK; i++)
        status = pool_open(unexpected_class_bytes(i), _Alignof(struct unexpected),
                           &rdv->unexpected[i]);
    return status;
}

tryst_status rendezvous_open(const struct rendezvous_params *params, struct err *err,
                             struct rendezvous **rdv_p)
{
    struct rendezvous *rdv = mem_zalloc(sizeof *rdv);
    uint64_t start;
    if (!rdv)
        return err_set(err, TRYST_E_NOMEM, "cannot open the context: out of memory");
    rdv->owner = params->owner;
    rdv->rail_open = params->rail_open;
    rdv->enter = params->enter;
    rdv->leave = params->leave;
    rdv->ack_timer_call = params->ack_timer_call;
    rdv->device_start = params->device_start;
    rdv->config = params->config;
    rdv->log = params->log;
    rdv->clock = params->clock;
    rdv->poller = params->poller;
    rdv->trace = params->trace;
    rdv->sched = params->sched;
    rdv->above = params->above;
    rdv->op_events = &protocol_op_events;
    rdv->peer_events = &peer_events;
    rdv->host = params->host;
    rdv->memory = params->memory;
    rdv->fork_generation = fork_generation();
    rdv->id_mask = (1ull << 48) - 1;
    mpsc_init(&rdv->submissions);
    tryst_status status = scopes_init(&rdv->scopes);
    list_init(&rdv->completed);
    list_init(&rdv->flush);
    list_init(&rdv->idle_peers);
    list_init(&rdv->unannounced_peers);
    list_init(&rdv->hello_links);
    list_init(&rdv->device_loads);
    hash_table_init(&rdv->ids);
    settings_read(rdv);
    gates_open(&rdv->gates);
    stage_init(&rdv->stage, &op_device_stage_events, rdv, rdv->host, rdv->memory,
               config_bytes(rdv->config, CONFIG_STAGE_BYTES));
    if (status != TRYST_OK || pools_open(rdv) != TRYST_OK) {
        rendezvous_close(rdv);
        return err_set(err, TRYST_E_NOMEM,
                       "cannot open the context's pools: out of memory");
    }
    if (random_secret(&start, sizeof start) != TRYST_OK) {
        err_set(err, TRYST_E_SYSTEM, "cannot get random bytes: %s", err_reason(errno));
        rendezvous_close(rdv);
        return TRYST_E_SYSTEM;
    }
    rdv->id_next = 1 + (start & (rdv->id_mask >> 1));
    rdv->ids_clear_end = rdv->id_mask + 1;
    *rdv_p = rdv;
    return TRYST_OK;
}

void rendezvous_close(struct rendezvous *rdv)
{
    size_t held = rdv->ops ? pool_in_use(rdv->ops) : 0;
    hash_table_close(&rdv->ids);
    scopes_close(&rdv->scopes);
    stage_end(&rdv->stage);
    gates_close(&rdv->gates, rdv->log);
    mem_free(rdv->deadlines.items);
    rdv->deadlines.items = NULL;
    pool_close(rdv->wants);
    pool_close(rdv->slices);
    rdv->wants = rdv->slices = NULL;
    if (!held) {
        engine_free(rdv);
        return;
    }
    /* Handles stay readable: the release of the last one frees the rest. */
    LOG_INFO(rdv->log, "%zu operations were not released before tryst_close", held);
    rdv->log = NULL;
    rdv->above.used = NULL;
    /* relaxed: no call of this context is under way. */
    atomic_store_explicit(&rdv->orphans, held, memory_order_relaxed);
}

void *rendezvous_owner(const struct rendezvous *rdv)
{
    return rdv->owner;
}

uint64_t rendezvous_completions(const struct rendezvous *rdv)
{
    /* acquire: pairs with the store in op_complete_all. */
    return atomic_load_explicit(&rdv->completions, memory_order_acquire);
}

/* ---- a pass ------------------------------------------------------------------------ */

static int rails_progress(struct rendezvous *rdv)
{
    int count = 0;
    for (uint32_t i = 0; i < rdv->rails_count; i++) {
        struct rail *rail = rdv->rails[i].rail;
        count += rail->ops->progress(rail);
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

void rendezvous_reap(struct rendezvous *rdv)
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
        count += peer_flush(container_of(node, struct peer, out.flush_node));
    return count;
}

/* Queue for all peers what waits to go with other frames. */
static void idle_release(struct rendezvous *rdv)
{
    struct list_node *node;
    while ((node = list_first(&rdv->idle_peers)) != NULL)
        peer_idle(container_of(node, struct peer, out.idle_node));
}

/* Send the WANTs of small receives, before the thread sleeps and at each tick. */
static void announce_all(struct rendezvous *rdv)
{
    struct list_node *node;
    while ((node = list_first(&rdv->unannounced_peers)) != NULL)
        peer_announce(container_of(node, struct peer, in.unannounced_node));
}

__attribute__((cold, noinline)) static void tick(struct rendezvous *rdv, uint64_t now_ns)
{
    rdv->tick_ns = now_ns + TICK_NS;
    descriptors_low_refresh();
    if (rdv->join_again && rdv->group && !rdv->leaving)
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
    if (now_ns >= rdv->tick_ns || clock_since_ns(rdv->timers_ns, now_ns) > 2 * TICK_NS)
        count = input_drain(rdv);
    rdv->timers_ns = now_ns;
    if (now_ns >= rdv->tick_ns)
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
    if (!rdv->ack_timer_runs && rdv->ack_timer_call)
        rdv->ack_timer_runs = rdv->ack_timer_call(rdv->owner);
    return rdv->ack_timer_runs;
}

/* Decide, when a thread leaves, whether acknowledgements to the peer wait for a reply:
 * true if a small tensor was sent to the peer since a thread last left, so that the next
 * one can carry them, and the timer runs. */
static bool acks_defer(struct peer *peer)
{
    if (!peer->in.unacked || peer->out.requests_new_count ||
        !urgent_empty(&peer->out.blocked_sends))
        return false;
    bool answers = peer->out.stream.next != peer->in.left_next;
    peer->in.left_next = peer->out.stream.next;
    return answers && ack_timer_start(peer->rdv);
}

static void leave_release(struct rendezvous *rdv)
{
    list_for_each_safe (&rdv->idle_peers, node, after) {
        struct peer *peer = container_of(node, struct peer, out.idle_node);
        if (!acks_defer(peer))
            peer_idle(peer);
    }
}

void rendezvous_settle(struct rendezvous *rdv)
{
    if (!list_empty(&rdv->idle_peers))
        leave_release(rdv);
    if (!list_empty(&rdv->flush))
        flush_all(rdv);
    rdv->pass_ns = 0;
}

bool rendezvous_ack_timer(struct rendezvous *rdv)
{
    rdv->ack_timer_idle = list_empty(&rdv->idle_peers) ? rdv->ack_timer_idle + 1 : 0;
    idle_release(rdv);
    flush_all(rdv);
    rdv->pass_ns = 0;
    if (rdv->ack_timer_idle < ACK_TIMER_IDLE)
        return true;
    rdv->ack_timer_idle = 0;
    rdv->ack_timer_runs = false;
    return false;
}

/* Detect a long gap between passes while bulk is in flight: input waited meanwhile, so
 * samples of the path are invalid. */
__attribute__((noinline)) static void pause_check(struct rendezvous *rdv)
{
    uint64_t before_ns = rdv->moved_ns;
    rdv->moved_ns = clock_now_ns(rdv->clock);
    if (!before_ns || rdv->moved_ns < before_ns + PAUSE_NS)
        return;
    rdv->pauses++;
    sched_pause(rdv->sched, NULL);
}

static int pass(struct rendezvous *rdv)
{
    if (rdv->moving)
        pause_check(rdv);
    rdv->pass_ns = 0;
    rdv->stamps_left = 0;
    rdv->ran_inline = false;
    int count = mpsc_empty(&rdv->submissions) ? 0 : submissions_run(rdv);
    count += rails_progress(rdv);
    if (++rdv->passes % PASSES_PER_CLOCK == 0 || rdv->tick_ns == 0)
        count += timers_run(rdv);
    if (rdv->reap)
        rendezvous_reap(rdv);
    count += above_run(rdv);
    rdv->start_failed = false;
    count += sched_run(rdv->sched);
    if (!count)
        idle_release(rdv);
    if (!list_empty(&rdv->flush))
        count += flush_all(rdv);
    if (rdv->reap)
        rendezvous_reap(rdv);
    return list_empty(&rdv->completed) ? count : count + op_complete_all(rdv);
}

void rendezvous_clock_due(struct rendezvous *rdv)
{
    rdv->passes = PASSES_PER_CLOCK - 1;
}

int rendezvous_progress(struct rendezvous *rdv)
{
    uint64_t begin_ns = trace_now_ns(rdv->trace);
    int count = pass(rdv);
    rdv->pass_ns = 0; /* events may come long before the next pass */
    if (rdv->trace && count)
        trace_span(rdv->trace, "progress", NULL, begin_ns, trace_now_ns(rdv->trace), 0, 0,
                   0);
    return count;
}

tryst_status rendezvous_arm(struct rendezvous *rdv)
{
    tryst_status worst = TRYST_OK;
    /* seq_cst: pairs with the load in rendezvous_queue. */
    atomic_store_explicit(&rdv->sleeping, 1, memory_order_seq_cst);
    if (!mpsc_empty(&rdv->submissions) || rdv->ran_inline)
        return TRYST_AGAIN;
    announce_all(rdv);
    idle_release(rdv);
    rendezvous_settle(rdv);
    if (!list_empty(&rdv->completed) || rdv->reap)
        return TRYST_AGAIN;
    if (rdv->above.busy && rdv->above.busy(rdv->above.arg))
        return TRYST_AGAIN;
    rdv->copies_busy = false;
    rdv->moved_ns = 0; /* sleeping until an event is not a pause */
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

uint64_t rendezvous_next_ns(const struct rendezvous *rdv)
{
    uint64_t next_ns = deadline_next(rdv);
    uint64_t tick_at = rdv->group && rdv->group->roster.size > 1 ? rdv->tick_ns : 0;
    if (!tick_at && !list_empty(&rdv->scopes.all) && rdv->set.stall_warn_ns)
        tick_at = rdv->tick_ns;
    next_ns = earlier(next_ns, tick_at);
    next_ns = earlier(next_ns, sched_next_ns(rdv->sched));
    if (rdv->copies_busy)
        next_ns = earlier(next_ns, clock_now_ns(rdv->clock) + COPY_NAP_NS);
    return next_ns;
}

/* ---- rails and listener ------------------------------------------------------------ */

const struct rail_events *const rendezvous_rail_events = &peer_rail_events;
tryst_status (*const rendezvous_slice_start)(struct transfer *) = transfer_start;
const uint32_t rendezvous_wire_version = WIRE_VERSION;

void rendezvous_rail_add(struct rendezvous *rdv, int kind, uint32_t place,
                         struct rail *rail)
{
    uint32_t at = rdv->rails_count++;
    assert(at < RAILS_MAX);
    rdv->rails[at].rail = rail;
    rdv->rails[at].kind = (uint32_t)kind;
    rdv->rails[at].place = place;
    if (rdv->live)
        live_transport(rdv->live, kind);
    uint64_t mask = rail->tag_bits >= 64 ? UINT64_MAX : (1ull << rail->tag_bits) - 1;
    rdv->id_mask &= mask;
    if (rdv->ids_clear_end > rdv->id_mask + 1)
        rdv->ids_clear_end = rdv->id_mask + 1;
}

void rendezvous_rail_opened(struct rendezvous *rdv, int kind, uint32_t place,
                            tryst_status status, const char *text)
{
    if (!rdv->group)
        return;
    list_for_each_safe (&rdv->group->met, node, after)
        peer_ep_rail_opened(container_of(node, struct peer, node), kind, place, status,
                            text);
}

void rendezvous_device_started(struct rendezvous *rdv, tryst_memory_kind kind,
                               tryst_status status, const char *text)
{
    op_devices_started(rdv, kind, status, text);
}

void rendezvous_rails_forget(struct rendezvous *rdv)
{
    rdv->rails_count = 0;
    rdv->stage_listed = false;
}

static void link_accepted(void *arg, struct link *link)
{
    peer_link_accept(arg, link);
}

tryst_status rendezvous_listen(struct rendezvous *rdv, const struct link_tcp *tcp,
                               struct link_address *address_p)
{
    rdv->scopes_here = reach_scopes_of(tcp);
    return link_listen(rdv->poller, rdv->log, tcp, LINKS_PENDING_MAX, link_accepted, rdv,
                       &rdv->listener, address_p);
}

void rendezvous_listen_stop(struct rendezvous *rdv)
{
    link_listener_close(rdv->listener);
    rdv->listener = NULL;
}

void rendezvous_awake(struct rendezvous *rdv)
{
    /* relaxed: a submission that still reads 1 wakes once too often, which is
     * harmless. */
    atomic_store_explicit(&rdv->sleeping, 0, memory_order_relaxed);
}
