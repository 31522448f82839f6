/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rendezvous engine: one pass of it does everything that is due.
 *
 * Idea: a pass takes what users submitted, lets the rails deliver, settles what ended, lets the
 * dispatch start slices, packs what is owed into frames and then completes operations, in this
 * order: what becomes ready in a pass leaves in the same pass.
 * Invariant: completions and endings run only at the places marked below, so no handler finds
 * an object gone under its hands.
 * Callers: commsched (progress, open, close).
 */
#include "rendezvous/rendezvous.h"

#include "engine.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/fork.h"
#include "core/hash.h"
#include "core/random.h"
#include "peer.h"
#include "step.h"

/** The clock is read in one pass of so many when nothing happens. */
enum { PASSES_PER_CLOCK = 64 };
/** Idle passes (some 30 ns each) after which a small receive announces itself: many round trips
 *  between two spinning ranks. */
enum { LAZY_PASSES = 512 };
/** Polls (of 32 events) that a rank makes first that has not looked for long. */
enum { LATE_POLLS = 64 };
/** Accepted connections that have not said who they are. */
enum { LINKS_PENDING_MAX = 64 };

/* ---- open and close ----------------------------------------------------------------------- */

static void settings_read(struct rendezvous *rdv)
{
    const struct config *config = rdv->config;
    struct rendezvous_settings *set = &rdv->set;
    set->eager_max_bytes = config_bytes(config, CONFIG_EAGER_MAX);
    if (set->eager_max_bytes > EAGER_BYTES_LIMIT)
        set->eager_max_bytes = EAGER_BYTES_LIMIT;
    set->eager_credit_bytes = config_bytes(config, CONFIG_EAGER_CREDIT);
    set->slice_bytes = config_bytes(config, CONFIG_SLICE_BYTES);
    set->peer_timeout_ns = config_time_ns(config, CONFIG_PEER_TIMEOUT);
    set->connect_timeout_ns = config_time_ns(config, CONFIG_CONNECT_TIMEOUT);
    set->stall_warn_ns = config_time_ns(config, CONFIG_STALL_WARN);
    set->posted_slices = (uint32_t)config_int(config, CONFIG_POSTED_SLICES);
    set->wants_max = (uint32_t)config_int(config, CONFIG_WANTS_MAX);
    set->parked_max = (uint32_t)config_int(config, CONFIG_PARKED_MAX);
    set->early_max = (uint32_t)config_int(config, CONFIG_EARLY_MAX);
    set->frame_credits = (uint32_t)config_int(config, CONFIG_FRAME_CREDITS);
}

static tryst_status pools_open(struct rendezvous *rdv)
{
    struct pool_params ops = {
        .name = "operations", .item_bytes = sizeof(tryst_op), .align = 64};
    struct pool_params wants = {.name = "wants", .item_bytes = sizeof(struct want)};
    tryst_status status = pool_open(&ops, &rdv->ops);
    return status == TRYST_OK ? pool_open(&wants, &rdv->wants) : status;
}

tryst_status rendezvous_open(const struct rendezvous_params *params, struct err *err,
                             struct rendezvous **rdv_p)
{
    struct rendezvous *rdv = mem_zalloc(sizeof *rdv);
    uint64_t start;
    if (!rdv)
        return err_set(err, TRYST_E_NOMEM, "no memory for the context");
    rdv->owner = params->owner;
    rdv->rails_open = params->rails_open;
    rdv->enter = params->enter;
    rdv->leave = params->leave;
    rdv->courier_call = params->courier_call;
    rdv->config = params->config;
    rdv->log = params->log;
    rdv->clock = params->clock;
    rdv->poller = params->poller;
    rdv->trace = params->trace;
    rdv->dispatch = params->dispatch;
    rdv->dispatch_arg = params->dispatch_arg;
    rdv->fork_generation = fork_generation();
    rdv->id_mask = (1ull << 48) - 1;
    mpsc_init(&rdv->submissions);
    list_init(&rdv->scopes);
    list_init(&rdv->completed);
    list_init(&rdv->flush);
    list_init(&rdv->lazy_peers);
    list_init(&rdv->riding);
    list_init(&rdv->hello_links);
    idmap_init(&rdv->ids);
    settings_read(rdv);
    if (pools_open(rdv) != TRYST_OK || random_secret(&start, sizeof start) != TRYST_OK) {
        rendezvous_close(rdv);
        return err_set(err, TRYST_E_NOMEM, "no memory for the context's pools");
    }
    rdv->id_next = 1 + (start & (rdv->id_mask >> 1));
    rdv->ids_clear_end = rdv->id_mask + 1;
    *rdv_p = rdv;
    return TRYST_OK;
}

static void engine_free(struct rendezvous *rdv)
{
    pool_close(rdv->ops);
    mem_free(rdv);
}

void rendezvous_close(struct rendezvous *rdv)
{
    size_t held = rdv->ops ? pool_counters(rdv->ops).in_use : 0;
    idmap_free(&rdv->ids);
    mem_free(rdv->deadlines.items);
    rdv->deadlines.items = NULL;
    pool_close(rdv->wants);
    rdv->wants = NULL;
    if (!held) {
        engine_free(rdv);
        return;
    }
    /* Handles stay readable: the last one that is released frees the rest. */
    LOG_INFO(rdv->log, "%zu operations were not released before tryst_close", held);
    rdv->log = NULL;
    /* relaxed: no call of this context is under way. */
    atomic_store_explicit(&rdv->orphans, held, memory_order_relaxed);
}

void rendezvous_orphan_gone(struct rendezvous *rdv)
{
    /* acq_rel: whoever frees sees every other's release. */
    if (atomic_fetch_sub_explicit(&rdv->orphans, 1, memory_order_acq_rel) == 1)
        engine_free(rdv);
}

void *rendezvous_owner(const struct rendezvous *rdv)
{
    return rdv->owner;
}

/* ---- ids ---------------------------------------------------------------------------------- */

/** How many ids from op->id on are this operation's, at most. */
static uint64_t op_ids(const tryst_op *op)
{
    uint64_t slices = op->bytes / op->rdv->set.slice_bytes + 1;
    return op->kind == OP_RECV ? slices : 1;
}

/** id_next stands before a live run or the end: find how far it may go, or step behind the run.
 *  Only after a wrap is there any. */
static void ids_search(struct rendezvous *rdv, uint64_t n)
{
    uint64_t begin = rdv->id_mask + 1;
    uint64_t end = begin;
    if (rdv->id_next + n > rdv->id_mask + 1)
        rdv->id_next = 1;
    rdv->ids_clear_end = rdv->id_next;
    for (size_t i = 0; rdv->ids.slots && i <= rdv->ids.mask; i++) {
        const struct idmap_slot *slot = &rdv->ids.slots[i];
        if (!slot->id || slot->id >= begin ||
            slot->id + op_ids(slot->value) <= rdv->id_next)
            continue;
        begin = slot->id;
        end = slot->id + op_ids(slot->value);
    }
    if (begin >= rdv->id_next + n)
        rdv->ids_clear_end = begin;
    else
        rdv->id_next = end;
}

uint64_t rendezvous_ids(struct rendezvous *rdv, uint64_t n)
{
    while (rdv->id_next + n > rdv->ids_clear_end)
        ids_search(rdv, n);
    rdv->id_next += n;
    return rdv->id_next - n;
}

/* ---- submissions -------------------------------------------------------------------------- */

tryst_status rendezvous_usable(const struct rendezvous *rdv)
{
    if (rdv->fork_generation != fork_generation_now())
        return TRYST_E_FORKED;
    /* relaxed: a racing close is the user's error; this is for callbacks during it. */
    return atomic_load_explicit(&rdv->closing, memory_order_relaxed) ? TRYST_E_CONTEXT
                                                                     : TRYST_OK;
}

static int submissions_run(struct rendezvous *rdv)
{
    int count = 0;
    struct mpsc_node *node = mpsc_drain(&rdv->submissions);
    while (node) {
        struct submission *submission = container_of(node, struct submission, node);
        node = node->next;
        submission->run(rdv, submission);
        count++;
    }
    return count;
}

/** Frames for those peers that wait for nothing of ours: they have read all. */
static void flush_prompt(struct rendezvous *rdv)
{
    struct list now;
    struct list_node *node;
    list_init(&now);
    list_append(&now, &rdv->flush);
    while ((node = list_pop_front(&now)) != NULL) {
        struct peer *peer = container_of(node, struct peer, flush_node);
        if (peer->frames_acked == (uint32_t)peer->frames_sent)
            peer_flush(peer);
        else
            list_push_back(&rdv->flush, node);
    }
}

/** A submission by a thread that finds the role free, and no other before it, needs no queue, and what
 *  it owes to a peer that has read all that it was sent leaves at once; to others it leaves with the
 *  next pass, packed with its like. Nobody is called back here: what completes is told by the next
 *  pass, which also lets the dispatch start; so tryst_arm asks for one.
 *  False: the role is taken, or its last holder sleeps outside (tryst_arm) and must be woken. */
static bool submission_run_here(struct rendezvous *rdv, struct submission *submission)
{
    if (!rdv->enter || !rdv->enter(rdv->owner))
        return false;
    /* relaxed: written by holders of the role only. */
    bool runs = !atomic_load_explicit(&rdv->sleeping, memory_order_relaxed) &&
                mpsc_empty(&rdv->submissions);
    if (runs) {
        rdv->pass_ns = 0;
        rdv->stirred = true;
        submission->run(rdv, submission);
        flush_prompt(rdv);
    }
    rdv->pass_ns = 0;
    rdv->leave(rdv->owner);
    return runs;
}

void rendezvous_queue(struct rendezvous *rdv, struct submission *submission)
{
    mpsc_push(&rdv->submissions, &submission->node);
    /* seq_cst: Dekker with rendezvous_arm (push, then load; store, then look for pushes). */
    if (atomic_load_explicit(&rdv->sleeping, memory_order_seq_cst))
        poller_wake(rdv->poller);
}

void rendezvous_submit(struct rendezvous *rdv, struct submission *submission)
{
    if (!submission_run_here(rdv, submission))
        rendezvous_queue(rdv, submission);
}

void op_fail(tryst_op *op, tryst_status status, int32_t origin_rank, const char *text)
{
    if (op->kind == OP_SEND)
        producer_fail(op, status, origin_rank, text);
    else if (op->kind == OP_RECV)
        consumer_fail(op, status, origin_rank, text);
}

/* ---- a pass ------------------------------------------------------------------------------- */

static int rails_progress(struct rendezvous *rdv)
{
    int count = 0;
    for (uint32_t i = 0; i < rdv->rails_all_count; i++)
        count += rdv->rails_all[i]->ops->progress(rdv->rails_all[i]);
    return count;
}

static void close_report(tryst_op *close_op)
{
    if (!close_op)
        return;
    op_report(close_op, TRYST_OK, -1, TRYST_OK, NULL);
    op_end(close_op);
}

static void scope_end(struct scope *scope)
{
    tryst_op *close_op = scope->close_op;
    abort_note_scope(scope);
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

/** What is left of a closing scope may wait for a peer's step to close (a small send that nobody has
 *  received, and was given back): its close need not. */
static void close_settle(struct scope *scope)
{
    if (!ops_reported(&scope->ops) || !ops_reported(&scope->warned))
        return;
    close_report(scope->close_op);
    scope->close_op = NULL;
}

/** Close endpoints, finish peers, free scopes: nobody else is walking them now. */
static void reap(struct rendezvous *rdv)
{
    rdv->reap = false;
    for (int i = 0; rdv->group && i < rdv->group->roster.size; i++)
        peer_ep_reap(&rdv->group->peers[i]);
    list_for_each_safe (&rdv->scopes, node, after) {
        struct scope *scope = container_of(node, struct scope, node);
        if (scope->state != SCOPE_CLOSING)
            continue;
        consumer_askers_answer(scope);
        close_settle(scope);
        if (list_empty(&scope->ops) && list_empty(&scope->warned))
            scope_end(scope);
    }
}

static int flush_all(struct rendezvous *rdv)
{
    struct list now;
    struct list_node *node;
    int count = 0;
    list_init(&now);
    list_append(&now, &rdv->flush); /* who has no room joins the next pass */
    while ((node = list_first(&now)) != NULL)
        count += peer_flush(container_of(node, struct peer, flush_node));
    return count;
}

static void stall_warn(struct rendezvous *rdv, struct scope *scope, uint64_t now_ns)
{
    struct list_node *node;
    while ((node = list_first(&scope->ops)) != NULL) {
        tryst_op *op = container_of(node, tryst_op, scope_node);
        char text[1400];
        if (now_ns - op->submitted_ns < rdv->set.stall_warn_ns)
            return;
        list_remove(node);
        list_push_back(&scope->warned, node);
        if (op->reported)
            continue;
        op_describe(op, now_ns, text, sizeof text);
        LOG_WARN(rdv->log, "stalled: %s", text);
    }
}

/** The reason of an abort did not come within a tick: say what is known. */
static void causes_settle(struct list *ops)
{
    list_for_each_safe (ops, node, after) {
        tryst_op *op = container_of(node, tryst_op, scope_node);
        char text[64];
        snprintf(text, sizeof text, "rank %d aborted the step", op->origin_rank);
        if (op->kind == OP_RECV && op->awaits_cause)
            consumer_cause(op, op->origin_rank, text);
    }
}

/** What was owed without hurry joins what is owed. */
static void lazy_release(struct rendezvous *rdv)
{
    struct list_node *node;
    rdv->lazy_idle = 0;
    while ((node = list_pop_front(&rdv->lazy_peers)) != NULL) {
        struct peer *peer = container_of(node, struct peer, lazy_node);
        list_append(&peer->pending, &peer->lazy);
        producer_ask(peer);
        peer_flush_later(peer);
    }
}

__attribute__((cold, noinline)) static void tick(struct rendezvous *rdv, uint64_t now_ns)
{
    rdv->tick_ns = now_ns + TICK_NS;
    for (int i = 0; rdv->group && i < rdv->group->roster.size; i++)
        peer_tick(&rdv->group->peers[i], now_ns);
    if (rdv->awaiting_cause) {
        rdv->awaiting_cause = false;
        list_for_each_safe (&rdv->scopes, node, after) {
            causes_settle(&container_of(node, struct scope, node)->ops);
            causes_settle(&container_of(node, struct scope, node)->warned);
        }
    }
    lazy_release(rdv); /* however busy the engine is */
    if (rdv->listener)
        link_listener_tick(rdv->listener, now_ns);
    list_for_each_safe (&rdv->scopes, node, after) {
        struct scope *scope = container_of(node, struct scope, node);
        if (rdv->set.stall_warn_ns)
            stall_warn(rdv, scope, now_ns);
    }
    if (rdv->live)
        live_tick(rdv->live, rdv, now_ns);
}

/** Nobody has looked for long, so time-outs may have passed for which the answers have come: those
 *  first. */
static void look_first(struct rendezvous *rdv)
{
    for (int i = 0; i < LATE_POLLS && poller_run(rdv->poller, 0) > 0; i++)
        rails_progress(rdv);
}

static int timers_run(struct rendezvous *rdv)
{
    int count = 0;
    uint64_t now_ns = rendezvous_now(rdv);
    if (now_ns - rdv->looked_ns > 2 * TICK_NS)
        look_first(rdv);
    rdv->looked_ns = now_ns;
    if (now_ns >= rdv->tick_ns)
        tick(rdv, now_ns);
    if (rdv->deadlines.count)
        count = deadline_run(rdv, now_ns);
    if (!list_empty(&rdv->riding))
        ride_beat(rdv);
    return count;
}

/** A small receive waits a little before it announces itself: its DATA is usually on the way. */
static void lazy_watch(struct rendezvous *rdv, int events)
{
    rdv->lazy_idle = events ? 0 : rdv->lazy_idle + 1;
    if (rdv->lazy_idle >= LAZY_PASSES)
        lazy_release(rdv);
}

void rendezvous_settle(struct rendezvous *rdv)
{
    if (!list_empty(&rdv->riding))
        ride_leave(rdv);
    if (!list_empty(&rdv->lazy_peers))
        lazy_release(rdv);
    if (!list_empty(&rdv->flush))
        flush_all(rdv);
    rdv->pass_ns = 0;
}

bool rendezvous_courier(struct rendezvous *rdv)
{
    bool goes_on = ride_courier(rdv);
    if (!list_empty(&rdv->flush))
        flush_all(rdv);
    return goes_on;
}

static int pass(struct rendezvous *rdv)
{
    rdv->pass_ns = 0;
    rdv->stirred = false;
    int count = mpsc_empty(&rdv->submissions) ? 0 : submissions_run(rdv);
    count += rails_progress(rdv);
    if (++rdv->passes % PASSES_PER_CLOCK == 0 || rdv->tick_ns == 0)
        count += timers_run(rdv);
    if (rdv->reap)
        reap(rdv);
    rdv->start_failed = false;
    count += rdv->dispatch->run(rdv->dispatch_arg);
    if (!list_empty(&rdv->lazy_peers))
        lazy_watch(rdv, count);
    if (!count && !list_empty(&rdv->riding))
        ride_end(rdv);
    if (!list_empty(&rdv->flush))
        count += flush_all(rdv);
    if (rdv->reap)
        reap(rdv);
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
    rdv->pass_ns = 0; /* events may come before the next one, long after this */
    if (rdv->trace && count)
        trace_span(rdv->trace, "progress", NULL, begin_ns, trace_now_ns(rdv->trace), 0, 0,
                   0);
    return count;
}

tryst_status rendezvous_arm(struct rendezvous *rdv)
{
    tryst_status worst = TRYST_OK;
    /* seq_cst: partner of rendezvous_submit. */
    atomic_store_explicit(&rdv->sleeping, 1, memory_order_seq_cst);
    if (!mpsc_empty(&rdv->submissions) || rdv->stirred)
        return TRYST_AGAIN;
    ride_end(rdv);
    rendezvous_settle(rdv);
    if (!list_empty(&rdv->completed) || rdv->reap)
        return TRYST_AGAIN;
    for (uint32_t i = 0; i < rdv->rails_all_count; i++) {
        tryst_status status = rdv->rails_all[i]->ops->arm(rdv->rails_all[i]);
        if (status == TRYST_AGAIN)
            return status;
        if (status != TRYST_OK)
            worst = status;
    }
    /* Frames and slices that the transport had no room for are tried again soon. */
    return list_empty(&rdv->flush) && !rdv->start_failed ? worst : TRYST_E_UNSUPPORTED;
}

uint64_t rendezvous_next_ns(const struct rendezvous *rdv)
{
    uint64_t deadline = deadline_next(rdv);
    uint64_t tick_at = rdv->group && rdv->group->roster.size > 1 ? rdv->tick_ns : 0;
    if (!tick_at && !list_empty(&rdv->scopes) && rdv->set.stall_warn_ns)
        tick_at = rdv->tick_ns;
    if (!deadline || (tick_at && tick_at < deadline))
        return tick_at;
    return deadline;
}

/* ---- rails and listener -------------------------------------------------------------------- */

const struct rail_events *const rendezvous_rail_events = &peer_rail_events;

tryst_status rendezvous_rail_add(struct rendezvous *rdv, int kind, struct rail *rail)
{
    uint32_t *count = &rdv->rails_count[kind];
    if (*count == sizeof rdv->rails[kind] / sizeof *rdv->rails[kind])
        return TRYST_E_UNSUPPORTED;
    rdv->rails[kind][(*count)++] = rail;
    if (!rail)
        return TRYST_OK;
    rdv->rails_all[rdv->rails_all_count++] = rail;
    if (rdv->live)
        live_transport(rdv->live, kind);
    uint64_t mask = rail->tag_bits >= 64 ? UINT64_MAX : (1ull << rail->tag_bits) - 1;
    rdv->id_mask &= mask;
    if (rdv->ids_clear_end > rdv->id_mask + 1)
        rdv->ids_clear_end = rdv->id_mask + 1;
    return TRYST_OK;
}

void rendezvous_rails_none(struct rendezvous *rdv, int kind)
{
    rdv->rails_count[kind] = 0;
}

void rendezvous_rails_forget(struct rendezvous *rdv)
{
    memset(rdv->rails_count, 0, sizeof rdv->rails_count);
    rdv->rails_all_count = 0;
}

static void link_accepted(void *arg, struct link *link)
{
    peer_link_accept(arg, link);
}

tryst_status rendezvous_listen(struct rendezvous *rdv, const struct link_tcp *tcp,
                               struct link_address *address_p)
{
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
    /* relaxed: a submission that still sees 1 wakes once too often, which does no harm. */
    atomic_store_explicit(&rdv->sleeping, 0, memory_order_relaxed);
}

void rendezvous_refuse(struct rendezvous *rdv)
{
    /* relaxed: see rendezvous_usable. */
    atomic_store_explicit(&rdv->closing, true, memory_order_relaxed);
}

/* ---- group -------------------------------------------------------------------------------- */

tryst_status rendezvous_group_open(struct rendezvous *rdv, struct tryst_group *group,
                                   struct err *err)
{
    int size = group->roster.size;
    group->rdv = rdv;
    group->peers = mem_zalloc((size_t)size * sizeof *group->peers);
    if (!group->peers)
        return err_set(err, TRYST_E_NOMEM, "no memory for %d peers", size);
    pthread_mutex_init(&group->step_lock, NULL);
    rdv->group = group;
    memcpy(&rdv->cookie, group->cookie, sizeof rdv->cookie);
    for (int i = 0; i < size; i++) {
        tryst_status status = peer_open(&group->peers[i], rdv, i);
        if (status != TRYST_OK) {
            rdv->group = NULL;
            mem_free(group->peers);
            group->peers = NULL;
            return err_set(err, status, "no random numbers for the peers' nonces");
        }
    }
    rendezvous_clock_open(rdv);
    peer_tree_join(rdv);
    if (rdv->live) {
        /* What shows which ranks belong together must not show the cookie itself. */
        live_session(rdv->live, hash_bytes(group->cookie, sizeof group->cookie));
        live_phase(rdv->live, TRYST_LIVE_OPEN);
    }
    return TRYST_OK;
}

void rendezvous_group_leave(struct rendezvous *rdv)
{
    list_for_each_safe (&rdv->scopes, node, after) {
        struct scope *scope = container_of(node, struct scope, node);
        if (scope->step)
            mem_free(scope->step); /* the user did not close it */
        if (scope->state != SCOPE_CLOSING)
            scope_close(scope, TRYST_E_CONTEXT, "its group is being closed");
    }
    rdv->leaving = true;
    rdv->steps_end = UINT64_MAX; /* whatever comes now is answered CLOSED */
}

/** Nothing is left to be sent to the peer. */
static bool peer_is_quiet(const struct peer *peer)
{
    if (peer->life == PEER_GONE || !peer->ep)
        return true;
    return peer->life <= PEER_LEFT && list_empty(&peer->pending) &&
           list_empty(&peer->want_answers) && !peer->answers_count && !peer->held_bytes;
}

/** The peer has read all that was sent; it says so in answer to LEAVE. */
static bool peer_has_read(const struct peer *peer)
{
    return peer->life == PEER_GONE || !peer->ep ||
           peer->rank == peer->rdv->group->roster.rank ||
           (peer->life <= PEER_LEFT &&
            (peer->peer_read >= peer->frames_sent ||
             peer->frames_acked == (uint32_t)peer->frames_sent));
}

bool rendezvous_group_quiet(const struct rendezvous *rdv)
{
    bool quiet = list_empty(&rdv->scopes);
    for (int i = 0; i < rdv->group->roster.size; i++)
        quiet = quiet && peer_is_quiet(&rdv->group->peers[i]);
    return quiet;
}

bool rendezvous_group_read(const struct rendezvous *rdv)
{
    bool all = true;
    for (int i = 0; i < rdv->group->roster.size; i++)
        all = all && peer_has_read(&rdv->group->peers[i]);
    return all;
}

void rendezvous_group_tell(struct rendezvous *rdv)
{
    for (int i = 0; i < rdv->group->roster.size; i++)
        if (rdv->group->peers[i].life <= PEER_LEFT)
            peer_leave(&rdv->group->peers[i]);
}

void rendezvous_group_cut(struct rendezvous *rdv)
{
    for (int i = 0; i < rdv->group->roster.size; i++) {
        struct peer *peer = &rdv->group->peers[i];
        peer->left = true; /* no warning: it is we who go */
        peer_give_up(peer, TRYST_E_CONTEXT,
                     "is no longer reached: this context is closing");
    }
}

bool rendezvous_group_gone(const struct rendezvous *rdv)
{
    for (int i = 0; i < rdv->group->roster.size; i++)
        if (rdv->group->peers[i].life != PEER_GONE)
            return false;
    return true;
}

void rendezvous_group_held(const struct rendezvous *rdv, char *text, size_t capacity)
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < rdv->group->roster.size; i++) {
        const struct peer *peer = &rdv->group->peers[i];
        if (peer->life == PEER_GONE || !peer->ep || used >= capacity)
            continue;
        used += (size_t)snprintf(text + used, capacity - used, "%srank %d (%s)",
                                 used ? ", " : "", i,
                                 transport_kind_name(peer->candidates[peer->candidate]));
    }
}

void rendezvous_group_close(struct rendezvous *rdv)
{
    struct tryst_group *group = rdv->group;
    reap(rdv);
    list_for_each_safe (&rdv->scopes, node, after)
        scope_free(container_of(node, struct scope, node));
    for (int i = 0; i < group->roster.size; i++)
        peer_close(&group->peers[i]);
    peer_hello_links_close(rdv);
    op_complete_all(rdv);
    mem_free(group->peers);
    group->peers = NULL;
    pthread_mutex_destroy(&group->step_lock);
    rdv->group = NULL;
}

void rendezvous_forked(struct rendezvous *rdv)
{
    if (rdv->live)
        live_forked(rdv->live);
    if (rdv->listener)
        link_listener_forked(rdv->listener);
    peer_hello_links_forked(rdv);
    for (int i = 0; rdv->group && rdv->group->peers && i < rdv->group->roster.size; i++) {
        struct peer *peer = &rdv->group->peers[i];
        if (peer->link)
            link_forked(peer->link);
        if (peer->pidfd.fd >= 0)
            close(peer->pidfd.fd);
    }
}

/* ---- dump --------------------------------------------------------------------------------- */

static int dump_ops(struct rendezvous *rdv, int fd, const struct list *ops)
{
    int count = 0;
    uint64_t now_ns = clock_now_ns(rdv->clock);
    list_for_each_safe (ops, node, after) {
        const tryst_op *op = container_of(node, tryst_op, scope_node);
        char text[1400];
        if (op->reported)
            continue;
        op_describe(op, now_ns, text, sizeof text);
        dprintf(fd, "  %s\n", text);
        count++;
    }
    return count;
}

static void dump_peer(int fd, const struct peer *peer)
{
    static const char *const lives[] = {"alive", "left", "giving up", "gone"};
    static const char *const links[] = {"no link", "connecting", "linked"};
    static const char *const eps[] = {"no endpoint", "opening", "ready", "closing"};
    dprintf(
        fd,
        "  rank %d: %s, %s, %s (%s: %s); frames sent %" PRIu64 " acked %u read %" PRIu64
        "; wants sent %u taken %u, parked here %u; window in flight %" PRIu64 " bytes\n",
        peer->rank, lives[peer->life], links[peer->link_state], eps[peer->ep_state],
        peer->candidates_count ? transport_kind_name(peer->candidates[peer->candidate])
                               : "-",
        peer->mechanism, peer->frames_sent, peer->frames_acked, peer->frames_read,
        peer->wants_sent, peer->wants_acked, peer->parked_count,
        peer->lane.in_flight_bytes);
}

void rendezvous_dump(struct rendezvous *rdv, int fd)
{
    int count = 0;
    if (!rdv->group) {
        dprintf(fd, "tryst: no group\n");
        return;
    }
    dprintf(fd, "tryst: rank %d of %d; peers:\n", rdv->group->roster.rank,
            rdv->group->roster.size);
    for (int i = 0; i < rdv->group->roster.size; i++)
        dump_peer(fd, &rdv->group->peers[i]);
    dprintf(fd, "pending operations:\n");
    list_for_each_safe (&rdv->scopes, node, after) {
        const struct scope *scope = container_of(node, struct scope, node);
        count += dump_ops(rdv, fd, &scope->warned);
        count += dump_ops(rdv, fd, &scope->ops);
    }
    dprintf(fd, "%d operations pending\n", count);
}
