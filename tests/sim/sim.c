/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs in virtual time; see sim.h. */
#include "sim.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "commsched/sched/sched.h"
#include "rendezvous/protocol/want.h"

/* A rank whose transport cannot wake it polls again after this time, as in commsched's
 * idle.h. */
#define NAP_NS (1 * NS_PER_MS)

/* The bytes of all tensors. No code writes them; the offset of a slice identifies its
 * transfer. */
static char *send_bytes, *recv_bytes;

static struct sim *sim_of(struct world *world)
{
    return container_of(world, struct sim, world);
}

static uint64_t now_ns(const struct sim *sim)
{
    return sim->world.clock.now_ns - sim->begin_ns;
}

void sim_note(struct sim *sim, struct sim_entry entry)
{
    if (sim->params.quiet)
        return;
    entry.at_ns = now_ns(sim);
    sim_log_add(&sim->log, &entry);
}

/* ---- between engine and scheduler -------------------------------------------------- */

/* Return a number for a flow of a collective, from its key, which contains no address. */
static int flow_number(const tryst_op *op)
{
    return -2 - (int)(op->key->hash & 0xffffff);
}

static int which_of(const struct transfer *transfer)
{
    const tryst_op *op = container_of(transfer, struct want, transfer)->send;
    const struct sim_end *end =
        op->callback ? op->callback_arg : NULL; /* a flow has no callback */
    return end ? end->which : flow_number(op);
}

static void note_transfer(struct sim_rank *rank, enum sim_event event,
                          const struct transfer *transfer, uint64_t a, uint64_t b)
{
    sim_note(rank->sim, (struct sim_entry){.event = event,
                                           .which = which_of(transfer),
                                           .rank = rank->rank,
                                           .peer = transfer->lane->rank,
                                           .a = a,
                                           .b = b,
                                           .urgency = transfer->urgency});
}

static uint64_t unsteady;

/* Change `urgency` for the scheduler, as the planted fault requires. */
static void urgency_spoil(enum sim_fault fault, struct urgency *urgency)
{
    int32_t priority = urgency_priority(urgency);
    switch (fault) {
    case SIM_FIFO: urgency->sort_key = urgency->step = 0; break;
    case SIM_REVERSED:
        urgency->sort_key = urgency_sort_key(urgency_class(urgency), -priority);
        break;
    case SIM_NO_SHARE:
        if (urgency_class(urgency) == URGENCY_BACKGROUND)
            urgency->sort_key = urgency_sort_key(URGENCY_TRAINING, INT32_MAX);
        break;
    case SIM_EQUAL_SHARE:
        urgency->sort_key = urgency_sort_key(URGENCY_TRAINING, priority);
        break;
    case SIM_UNSTEADY:
        urgency->sort_key =
            urgency_sort_key(urgency_class(urgency), (int32_t)(unsteady++ % 97));
        break;
    default: break;
    }
}

/* Rendezvous calls these in the place of the scheduler's functions (-Wl,--wrap). */
#define WRAPPED(result, name, ...)           \
    result __real_sched_##name(__VA_ARGS__); \
    result __wrap_sched_##name(__VA_ARGS__); \
    result __wrap_sched_##name(__VA_ARGS__)

static struct sim_rank *rank_of(const struct sched_lane *lane)
{
    const struct peer *peer = container_of(lane, struct peer, lane);
    return &sim_of(world_current)->ranks[peer->rdv->group->roster.rank];
}

WRAPPED(void, lane_ready, struct sched *sched, struct sched_lane *lane, uint32_t rail,
        uint64_t window_bytes, uint64_t rail_bytes_per_s)
{
    struct sim_rank *rank = rank_of(lane);
    sim_note(rank->sim, (struct sim_entry){.event = SIM_LANE,
                                           .which = -1,
                                           .rank = rank->rank,
                                           .peer = lane->rank,
                                           .a = rail});
    __real_sched_lane_ready(sched, lane, rail, window_bytes, rail_bytes_per_s);
}

WRAPPED(void, add, struct sched *sched, struct transfer *transfer)
{
    struct sim_rank *rank = rank_of(transfer->lane);
    enum sim_fault fault = rank->sim->params.fault;
    note_transfer(rank, SIM_ADD, transfer, transfer->bytes,
                  (uint64_t)transfer->slice_bytes << 32 | transfer->posted);
    if (fault == SIM_LOST_TRANSFER && which_of(transfer) % 8 == 3)
        return;
    urgency_spoil(fault, &transfer->urgency);
    __real_sched_add(sched, transfer);
}

WRAPPED(void, posted, struct sched *sched, struct transfer *transfer)
{
    struct sim_rank *rank = rank_of(transfer->lane);
    note_transfer(rank, SIM_POSTED, transfer, transfer->posted, 0);
    if (rank->sim->params.fault == SIM_LOST_TRANSFER && which_of(transfer) % 8 == 3)
        return;
    __real_sched_posted(sched, transfer);
}

WRAPPED(void, raise, struct sched *sched, struct transfer *transfer, uint64_t urgency)
{
    struct sim_rank *rank = rank_of(transfer->lane);
    struct urgency to = {urgency, transfer->urgency.step, transfer->urgency.number};
    sim_note(rank->sim, (struct sim_entry){.event = SIM_RAISE,
                                           .which = which_of(transfer),
                                           .rank = rank->rank,
                                           .peer = transfer->lane->rank,
                                           .urgency = to});
    urgency_spoil(rank->sim->params.fault, &to);
    __real_sched_raise(sched, transfer, to.sort_key);
}

WRAPPED(void, credit, struct sched *sched, struct transfer *transfer, uint64_t bytes)
{
    struct sim_rank *rank = rank_of(transfer->lane);
    note_transfer(rank, SIM_CREDIT, transfer, bytes, 0);
    if (rank->sim->params.fault != SIM_LOST_CREDIT || transfer->upto % 8)
        __real_sched_credit(sched, transfer, bytes);
}

WRAPPED(void, remove, struct sched *sched, struct transfer *transfer)
{
    note_transfer(rank_of(transfer->lane), SIM_REMOVE, transfer, 0, 0);
    __real_sched_remove(sched, transfer);
}

WRAPPED(void, timer, struct sched *sched, uint64_t at_ns)
{
    if (sim_of(world_current)->params.fault != SIM_BLIND)
        __real_sched_timer(sched, at_ns);
}

WRAPPED(uint64_t, next_ns, const struct sched *sched)
{
    return sim_of(world_current)->params.fault == SIM_BLIND ? 0
                                                            : __real_sched_next_ns(sched);
}

static tryst_status slice_start(struct transfer *transfer)
{
    struct sim_rank *rank = rank_of(transfer->lane);
    struct sim *sim = rank->sim;
    sim->starting = transfer;
    tryst_status status = rendezvous_slice_start(transfer);
    sim->starting = NULL;
    note_transfer(rank, status == TRYST_OK ? SIM_START : SIM_REFUSED, transfer,
                  transfer->next, 0);
    return status;
}

/* ---- between engine and network ---------------------------------------------------- */

static void on_frame_sent(struct world_ep *from, size_t bytes)
{
    struct sim *sim =
        sim_of(container_of(from->base.rail, struct world_rail, base)->world);
    struct net_message message = {
        .from = from->rank, .to = from->peer, .ep_id = from->id, .which = -1};
    sim_note(sim, (struct sim_entry){.event = SIM_FRAME,
                                     .which = -1,
                                     .rank = from->rank,
                                     .peer = from->peer,
                                     .a = bytes});
    net_send(&sim->net, sim->world.clock.now_ns, &message, bytes);
}

static void on_bulk_sent(struct world_ep *from, const struct bulk *bulk)
{
    struct sim *sim =
        sim_of(container_of(from->base.rail, struct world_rail, base)->world);
    struct net_message message = {.from = from->rank,
                                  .to = from->peer,
                                  .is_bulk = true,
                                  .ep_id = from->id,
                                  .which = which_of(sim->starting),
                                  .slice = sim->starting->next};
    net_send(&sim->net, sim->world.clock.now_ns, &message, bulk->bytes);
}

static void on_copy(const struct bulk *send, const struct bulk *recv)
{
    assert_int_equal(send->bytes, recv->bytes);
    size_t at = (size_t)((char *)send->data - send_bytes);
    if (at < SIM_BYTES_MAX)
        assert_ptr_equal(recv_bytes + at, recv->data);
    else if (sim_coll_holds(send->data) && sim_coll_holds(recv->data))
        /* otherwise a child's sum, in scratch */
        assert_ptr_equal(send->data, recv->data);
}

static void on_arrived(void *arg, const struct net_message *packet)
{
    struct sim *sim = arg;
    if (packet->is_bulk)
        sim_note(sim, (struct sim_entry){.event = SIM_SLICE,
                                         .which = packet->which,
                                         .rank = packet->from,
                                         .peer = packet->to,
                                         .a = packet->slice});
    sim->moved = true;
    world_arrive(&sim->world, packet->from, packet->to, packet->ep_id, packet->is_bulk);
}

static struct coll_calls on_coll_calls(struct side *side)
{
    return sim_colls_open(sim_of(side->world), side);
}

static struct sched *on_sched(struct side *side)
{
    return sim_of(side->world)->ranks[side->rank].sched;
}

/* ---- time -------------------------------------------------------------------------- */

static void rank_leave_begin(struct sim *sim, int which)
{
    struct sim_rank *rank = &sim->ranks[which];
    if (rank->left || rank->killed)
        return;
    rank->left = true;
    pass_run(sim->world.sides[which].rdv);
    rendezvous_leave_poll(sim->world.sides[which].rdv);
    memset(rank->steps, 0, sizeof rank->steps); /* closed together with the group */
    sim->world.sides[which].has_events = true;
}

/* Make passes until the rank has no work, as its thread would before its sleep. */
static void rank_go(struct sim *sim, int which)
{
    struct rendezvous *rdv = sim->world.sides[which].rdv;
    tryst_status armed = TRYST_AGAIN;
    for (int i = 0; armed == TRYST_AGAIN; i++) {
        assert_true(i < 100000);
        pass_clock_due(rdv);
        int count = pass_run(rdv);
        pass_flush(rdv);
        if (count)
            continue;
        armed = pass_arm(rdv);
        pass_awake(rdv);
    }
    enum leave_state before = rdv->leave.state;
    if (before == LEAVE_BEGUN || before == LEAVE_SENT)
        sim->world.sides[which].has_events |= rendezvous_leave_poll(rdv) != before;
    uint64_t now = sim->world.clock.now_ns;
    uint64_t next = pass_next_ns(rdv);
    if (armed != TRYST_OK && (!next || next > now + NAP_NS))
        next = now + NAP_NS;
    sim->ranks[which].next_ns = next && next <= now ? now + 1 : next;
}

static uint64_t ranks_next_ns(const struct sim *sim)
{
    uint64_t next = UINT64_MAX;
    for (int i = 0; i < sim->world.size; i++) {
        const struct side *side = &sim->world.sides[i];
        uint64_t at = sim->ranks[i].next_ns;
        if (at && at < next && !side->still && !side->away)
            next = at;
    }
    return next;
}

/* Run the ranks until none has work. */
static void ranks_run(struct sim *sim)
{
    struct world *world = &sim->world;
    bool again = true;
    sim->moved = false;
    for (int turn = 0; again; turn++) {
        assert_true(turn < 100000);
        again = world->links_have_events;
        world->links_have_events = false;
        if (again)
            world_links_run(world);
        for (int i = 0; i < world->size; i++) {
            struct side *side = &world->sides[i];
            if (!side->has_events || side->still || side->away)
                continue;
            again = true;
            side->has_events = false;
            rank_go(sim, i);
        }
    }
    sim->ranks_next_ns = ranks_next_ns(sim);
}

static void clock_set(struct sim *sim, uint64_t at_ns)
{
    uint64_t now = sim->world.clock.now_ns;
    assert_true(at_ns >= now);
    clock_fake_advance(&sim->world.clock, at_ns - now);
}

/* Run the network's events at `at_ns`, and wake the ranks that are due. */
static void moment_run(struct sim *sim, uint64_t at_ns)
{
    clock_set(sim, at_ns);
    sim->events++;
    if (net_next_ns(&sim->net) <= at_ns)
        net_run(&sim->net, at_ns);
    if (sim->ranks_next_ns > at_ns)
        return;
    sim->moved = true;
    for (int i = 0; i < sim->world.size; i++)
        if (sim->ranks[i].next_ns && sim->ranks[i].next_ns <= at_ns)
            sim->world.sides[i].has_events = true;
}

/* Run until no packet is in flight. */
static void on_settle(struct world *world)
{
    struct sim *sim = sim_of(world);
    for (int i = 0; i < world->size; i++)
        world->sides[i].has_events = !sim->ranks[i].killed;
    world->links_have_events = true;
    ranks_run(sim);
    while (net_next_ns(&sim->net) != UINT64_MAX) {
        moment_run(sim, net_next_ns(&sim->net));
        ranks_run(sim);
    }
}

static const struct world_parts sim_parts = {
    .sched = on_sched,
    .coll_calls = on_coll_calls,
    .frame_sent = on_frame_sent,
    .bulk_sent = on_bulk_sent,
    .copy = on_copy,
    .settle = on_settle,
};

/* ---- the script -------------------------------------------------------------------- */

static void on_done(void *arg, tryst_op *op, tryst_status status)
{
    struct sim_end *end = arg;
    const struct sim_transfer *transfer = &end->sim->transfers[end->which];
    assert_false(end->done);
    end->done = true;
    end->status = status;
    end->op = NULL;
    sim_note(end->sim,
             (struct sim_entry){.event = SIM_DONE,
                                .which = end->which,
                                .rank = end->is_send ? transfer->from : transfer->to,
                                .a = end->is_send,
                                .b = (uint64_t)status});
    tryst_op_release(op);
}

static int end_rank(const struct sim_transfer *transfer, const struct sim_end *end)
{
    return end->is_send ? transfer->from : transfer->to;
}

static void end_submit(struct sim *sim, struct sim_transfer *transfer,
                       struct sim_end *end)
{
    char edge[24];
    int rank = end_rank(transfer, end);
    tryst_step *step = sim->ranks[rank].steps[transfer->step];
    tryst_op_params params = {.struct_size = sizeof params,
                              .flags = end->flags,
                              .priority = end->priority,
                              .callback = on_done,
                              .arg = end};
    snprintf(edge, sizeof edge, "t%d", end->which);
    const char *key = world_key(&sim->world, transfer->from, transfer->to, edge);
    sim_note(sim, (struct sim_entry){.event = SIM_SUBMIT,
                                     .which = end->which,
                                     .rank = rank,
                                     .a = end->is_send,
                                     .b = transfer->bytes});
    end->sim = sim;
    end->submitted = true;
    end->op = end->is_send ? world_send(&sim->world, rank, step, key, send_bytes,
                                        transfer->bytes, &params)
                           : world_recv(&sim->world, rank, step, key, recv_bytes,
                                        transfer->bytes, &params);
}

static void end_act(struct sim *sim, const struct sim_action *action)
{
    struct sim_transfer *transfer = &sim->transfers[action->what];
    enum sim_action_kind kind = action->kind;
    bool is_send =
        kind == SIM_DO_SEND || kind == SIM_DO_CANCEL_SEND || kind == SIM_DO_RAISE_SEND;
    struct sim_end *end = is_send ? &transfer->send : &transfer->recv;
    int rank = end_rank(transfer, end);
    if (sim->ranks[rank].killed || sim->ranks[rank].left)
        return;
    if (sim->world.sides[rank].away) { /* a stopped rank acts when it is continued */
        sim_act(sim, now_ns(sim) + NS_PER_MS, kind, action->what, action->value);
        return;
    }
    sim->world.sides[rank].has_events = true;
    if (kind == SIM_DO_SEND || kind == SIM_DO_RECV) {
        end_submit(sim, transfer, end);
        return;
    }
    if (!end->op)
        return;
    bool cancels = kind == SIM_DO_CANCEL_SEND || kind == SIM_DO_CANCEL_RECV;
    sim_note(sim, (struct sim_entry){.event = cancels ? SIM_CANCEL : SIM_RAISED,
                                     .which = action->what,
                                     .rank = rank,
                                     .a = is_send,
                                     .b = (uint64_t)action->value});
    tryst_status status = cancels
                              ? tryst_op_cancel(end->op)
                              : tryst_op_reprioritize(end->op, (int32_t)action->value);
    assert_int_equal(status, TRYST_OK);
}

static void rank_kill(struct sim *sim, int rank)
{
    world_kill(&sim->world, rank);
    sim->ranks[rank].killed = true;
    sim->world.links_have_events = true;
}

static void action_run(struct sim *sim, const struct sim_action *action)
{
    struct side *side = &sim->world.sides[action->what % WORLD_RANKS_MAX];
    uint64_t now = sim->world.clock.now_ns;
    if (action->kind <= SIM_DO_RAISE_RECV) {
        end_act(sim, action);
        return;
    }
    if (action->kind >= SIM_DO_COLL) {
        sim_coll_act(sim, action);
        return;
    }
    sim_note(sim, (struct sim_entry){.event = SIM_SCRIPT,
                                     .which = (int32_t)action->kind,
                                     .rank = -1,
                                     .a = (uint64_t)action->what,
                                     .b = (uint64_t)action->value});
    switch (action->kind) {
    case SIM_DO_LINK_RATE:
        net_link_rate(&sim->net, action->what, (uint64_t)action->value);
        break;
    case SIM_DO_LINK_CUT: net_link_cut(&sim->net, now, action->what, true); break;
    case SIM_DO_LINK_MEND: net_link_cut(&sim->net, now, action->what, false); break;
    case SIM_DO_PAIR_BREAK:
        world_link_cut(&sim->world, action->what, (int)action->value);
        sim->world.sides[action->value].has_events = true;
        break;
    case SIM_DO_RANK_LEAVE: rank_leave_begin(sim, action->what); break;
    case SIM_DO_REFUSE: side->ways_refused = (int)action->value; break;
    case SIM_DO_RANK_STOP: side->away = true; break;
    case SIM_DO_RANK_GO:
        side->away = false;
        side->has_events = sim->world.links_have_events = true;
        break;
    default: rank_kill(sim, action->what); break;
    }
}

static int action_compare(const void *a_p, const void *b_p)
{
    const struct sim_action *a = a_p;
    const struct sim_action *b = b_p;
    if (a->at_ns != b->at_ns)
        return a->at_ns < b->at_ns ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

static void actions_sort(struct sim *sim)
{
    if (!sim->actions_sorted)
        qsort(sim->actions + sim->actions_next,
              (size_t)(sim->actions_count - sim->actions_next), sizeof *sim->actions,
              action_compare);
    sim->actions_sorted = true;
}

static uint64_t actions_next_ns(struct sim *sim)
{
    actions_sort(sim);
    return sim->actions_next < sim->actions_count
               ? sim->begin_ns + sim->actions[sim->actions_next].at_ns
               : UINT64_MAX;
}

static void actions_run(struct sim *sim)
{
    while (actions_next_ns(sim) <= sim->world.clock.now_ns) {
        struct sim_action action = sim->actions[sim->actions_next++];
        sim->moved = true;
        action_run(sim, &action);
    }
}

void sim_act(struct sim *sim, uint64_t at_ns, enum sim_action_kind kind, int what,
             int64_t value)
{
    if (sim->actions_count == sim->actions_room) {
        sim->actions_room = 2 * sim->actions_room + 64;
        sim->actions =
            realloc(sim->actions, (size_t)sim->actions_room * sizeof *sim->actions);
        assert_non_null(sim->actions);
    }
    sim->actions[sim->actions_count] =
        (struct sim_action){at_ns, kind, what, value, (uint32_t)sim->actions_count};
    sim->actions_count++;
    sim->actions_sorted = false;
}

int sim_transfer_add(struct sim *sim, int from, int to, int step, uint64_t bytes)
{
    int which = sim->transfers_count++;
    /* operations point into the transfers, so none is added later */
    assert_true(bytes <= SIM_BYTES_MAX && !sim->events);
    if (which == sim->transfers_room) {
        sim->transfers_room = 2 * sim->transfers_room + 64;
        sim->transfers =
            realloc(sim->transfers, (size_t)sim->transfers_room * sizeof *sim->transfers);
        assert_non_null(sim->transfers);
    }
    sim->transfers[which] =
        (struct sim_transfer){.from = from,
                              .to = to,
                              .step = step,
                              .bytes = bytes,
                              .send = {.which = which, .is_send = true},
                              .recv = {.which = which}};
    return which;
}

int sim_transfer_at(struct sim *sim, int from, int to, uint64_t bytes, uint64_t send_ns,
                    uint64_t recv_ns, uint32_t flags, int32_t priority)
{
    int which = sim_transfer_add(sim, from, to, 0, bytes);
    struct sim_transfer *transfer = &sim->transfers[which];
    transfer->send.flags = transfer->recv.flags = flags;
    transfer->send.priority = transfer->recv.priority = priority;
    sim_act(sim, send_ns, SIM_DO_SEND, which, 0);
    sim_act(sim, recv_ns, SIM_DO_RECV, which, 0);
    return which;
}

/* ---- a run ------------------------------------------------------------------------- */

bool sim_transfer_ended(const struct sim *sim, const struct sim_transfer *transfer)
{
    const struct sim_rank *from = &sim->ranks[transfer->from];
    const struct sim_rank *to = &sim->ranks[transfer->to];
    bool sent = transfer->send.done || (from->left && !transfer->send.submitted);
    bool received = transfer->recv.done || (to->left && !transfer->recv.submitted);
    return (sent || from->killed) && (received || to->killed);
}

static bool all_ended(const struct sim *sim)
{
    for (int i = 0; i < sim->transfers_count; i++)
        if (!sim_transfer_ended(sim, &sim->transfers[i]))
            return false;
    return sim->actions_next == sim->actions_count && sim_colls_ended(sim);
}

bool sim_run(struct sim *sim, uint64_t until_ns)
{
    bool ended = false;
    uint64_t at = sim->world.clock.now_ns;
    sim->moved = true;
    until_ns += sim->begin_ns;
    while (at <= until_ns && !ended) {
        moment_run(sim, at);
        actions_run(sim);
        if (sim->moved) {
            ranks_run(sim);
            ended = all_ended(sim);
        }
        uint64_t net = net_next_ns(&sim->net);
        at = actions_next_ns(sim);
        at = net < at ? net : at;
        at = sim->ranks_next_ns < at ? sim->ranks_next_ns : at;
    }
    return ended;
}

static char *bytes_make(void)
{
    void *bytes = mmap(NULL, SIM_BYTES_MAX, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(bytes != MAP_FAILED);
    return bytes;
}

static void sched_make(struct sim *sim, int rank)
{
    const struct sim_params *params = &sim->params;
    uint64_t times = params->fault == SIM_WIDE_WINDOW ? 8 : 1;
    struct sched_params sched = {.clock = &sim->world.clock.clock,
                                 .window_bytes = times * params->window_bytes,
                                 .rail_window_bytes = times * params->rail_window_bytes,
                                 .start = slice_start};
    sim->ranks[rank] = (struct sim_rank){.sim = sim, .rank = rank};
    assert_int_equal(sched_open(&sched, &sim->ranks[rank].sched), TRYST_OK);
}

static void steps_open(struct sim *sim)
{
    for (int i = 0; i < sim->params.ranks; i++)
        for (int step = 0; step < SIM_STEPS; step++)
            sim->ranks[i].steps[step] = world_step(&sim->world, i, (uint64_t)step + 1);
}

void sim_open(struct sim *sim, const struct sim_params *params, struct net *net)
{
    const struct {
        const char *name;
        uint64_t value;
    } given[] = {{"slice_bytes", params->slice_bytes},
                 {"window_bytes", params->window_bytes},
                 {"posted_slices", params->posted_slices},
                 {"wants_max", params->wants_max},
                 {"frame_credits", params->frame_credits},
                 {"scratch_bytes", params->scratch_bytes}};
    char values[COUNT_OF(given)][24];
    struct world_setting settings[COUNT_OF(given) + 1] = {{NULL, NULL}};
    int count = 0;
    for (size_t i = 0; i < COUNT_OF(given); i++) {
        (void)snprintf(values[i], sizeof values[i], "%llu",
                       (unsigned long long)given[i].value);
        if (given[i].value)
            settings[count++] = (struct world_setting){given[i].name, values[i]};
    }
    if (!send_bytes) {
        send_bytes = bytes_make();
        recv_bytes = bytes_make();
    }
    memset(sim, 0, sizeof *sim);
    sim->params = *params;
    sim->begin_ns = NS_PER_S;
    sim->net = *net;
    memset(net, 0, sizeof *net);
    list_init(&sim->net.free);
    list_init(&sim->net.free_messages);
    sim->net.arrived = on_arrived;
    sim->net.arg = sim;
    for (int i = 0; i < params->ranks; i++)
        sched_make(sim, i);
    assert_int_equal(world_open_parts(&sim->world, params->ranks, settings, &sim_parts),
                     TRYST_OK);
    sim->world.spoilt = params->fault == SIM_LOST_CREDIT;
    for (int i = 0; i < params->ranks; i++)
        sim->world.sides[i].borrows = params->borrows >> i & 1;
    for (int i = 0; i < params->ranks && params->posted_max; i++)
        sim->world.sides[i].rail.base.posted_max = params->posted_max;
    if (params->ways)
        world_ways(&sim->world, params->ways);
    steps_open(sim);
    assert_int_equal(sim->world.clock.now_ns, sim->begin_ns);
}

static void rest_cancel(struct sim *sim)
{
    for (int i = 0; i < sim->transfers_count; i++) {
        struct sim_end *ends[] = {&sim->transfers[i].send, &sim->transfers[i].recv};
        for (int j = 0; j < 2; j++)
            if (ends[j]->op)
                assert_int_equal(tryst_op_cancel(ends[j]->op), TRYST_OK);
    }
}

void sim_close(struct sim *sim)
{
    for (int i = 0; i < sim->net.links_count; i++)
        net_link_cut(&sim->net, sim->world.clock.now_ns, i, false);
    for (int i = 0; i < sim->params.ranks; i++)
        sim->world.sides[i].away = false;
    rest_cancel(sim);
    sim_colls_cancel(sim);
    world_settle(&sim->world);
    for (int i = 0; i < sim->params.ranks; i++)
        for (int step = 0; step < SIM_STEPS; step++)
            if (sim->ranks[i].steps[step])
                assert_int_equal(tryst_step_close(sim->ranks[i].steps[step], NULL),
                                 TRYST_OK);
    for (int i = 0; i < sim->params.ranks; i++)
        sim->ranks[i].killed = false; /* a world closes all of its ranks */
    world_close(&sim->world);
    for (int i = 0; i < sim->params.ranks; i++) {
        for (uint32_t rail = 0; rail < SCHED_RAILS_MAX && !sim->world.spoilt; rail++)
            assert_int_equal(sched_rail_bytes(sim->ranks[i].sched, rail), 0);
        sched_close(sim->ranks[i].sched);
    }
    sim_colls_close(sim);
    net_free(&sim->net);
    sim_log_clear(&sim->log);
    free(sim->transfers);
    free(sim->actions);
}
