/* SPDX-License-Identifier: Apache-2.0 */
/*
 * First come, first served under byte windows; see dispatch.h for the idea and the invariants.
 * Callers: rendezvous, through dispatch_ops, in the progress domain.
 */
#include "dispatch.h"

#include "core/trace_text.h"

#include <assert.h>
#include <stdio.h>

#include "core/alloc.h"

struct rail_window {
    uint64_t bytes;                   /* in flight on its lanes that are not away */
    const struct dispatch_lane *over; /* started a slice beyond the window; or NULL */
};

struct dispatch {
    struct dispatch_params params;
    struct list active; /* lanes with transfers that have slices left to start */
    struct list busy;   /* lanes with bytes in flight */
    struct rail_window rails[DISPATCH_RAILS_MAX];
    bool moved;   /* something changed since the last run */
    bool blocked; /* a rail's window kept a slice from starting in the last run */
};

tryst_status dispatch_open(const struct dispatch_params *params,
                           struct dispatch **dispatch_p)
{
    struct dispatch *dispatch = mem_zalloc(sizeof *dispatch);
    if (!dispatch)
        return TRYST_E_NOMEM;
    dispatch->params = *params;
    list_init(&dispatch->active);
    list_init(&dispatch->busy);
    *dispatch_p = dispatch;
    return TRYST_OK;
}

void dispatch_close(struct dispatch *dispatch)
{
    mem_free(dispatch);
}

uint64_t dispatch_rail_bytes(const struct dispatch *dispatch, uint32_t rail)
{
    return dispatch->rails[rail].bytes;
}

static uint64_t lane_window(const struct dispatch *dispatch,
                            const struct dispatch_lane *lane)
{
    uint64_t window = dispatch->params.window_bytes;
    return dispatch->params.window_is_set || window > lane->window_bytes
               ? window
               : lane->window_bytes;
}

/* ---- the trace ---------------------------------------------------------------------------- */

static void lane_trace_name(const struct dispatch *dispatch, struct dispatch_lane *lane)
{
    char text[48];
    if (!dispatch->params.trace)
        return;
    (void)snprintf(text, sizeof text, "bytes in flight to rank %d", (int)lane->rank);
    lane->trace_name = trace_text(dispatch->params.trace, text);
}

static void lane_trace(const struct dispatch *dispatch, const struct dispatch_lane *lane)
{
    static const struct trace_labels labels = {{"in flight", "window"}, 0};
    trace_counter(dispatch->params.trace, lane->trace_name, &labels,
                  lane->in_flight_bytes, lane_window(dispatch, lane), 0);
}

/* ---- who looks ---------------------------------------------------------------------------- */

/** So long no window may come back from a peer that looks. */
static uint64_t away_limit_ns(const struct dispatch_lane *lane)
{
    uint64_t turns_ns = DISPATCH_AWAY_TURNS * lane->turn_ns;
    return turns_ns > DISPATCH_AWAY_NS ? turns_ns : DISPATCH_AWAY_NS;
}

/** The slice that is timed was acknowledged, with all before it. A peer that was away must not pass for
 *  a slow one: the estimate at most doubles. */
static void turn_take(struct dispatch_lane *lane, uint64_t now_ns)
{
    uint64_t turn_ns = now_ns - lane->timed_ns;
    uint64_t most_ns = 2 * away_limit_ns(lane);
    turn_ns = turn_ns < most_ns ? turn_ns : most_ns;
    lane->turn_ns = lane->turn_ns ? (7 * lane->turn_ns + turn_ns) / 8 : turn_ns;
    lane->timed_ns = 0;
}

/** The peer has looked: window is about to come back. */
static void lane_heard(struct dispatch *dispatch, struct dispatch_lane *lane)
{
    lane->heard_ns = clock_now_ns(dispatch->params.clock);
    if (!lane->away)
        return;
    lane->away = false;
    dispatch->rails[lane->rail].bytes += lane->in_flight_bytes;
}

static void on_look(void *arg, uint64_t now_ns)
{
    struct dispatch *dispatch = arg;
    if (!dispatch->blocked)
        return;
    list_for_each_safe (&dispatch->busy, node, after) {
        struct dispatch_lane *lane = container_of(node, struct dispatch_lane, busy);
        struct rail_window *rail = &dispatch->rails[lane->rail];
        if (lane->away || now_ns < lane->heard_ns + away_limit_ns(lane))
            continue;
        lane->away = true;
        rail->bytes -= lane->in_flight_bytes;
        if (rail->over == lane)
            rail->over = NULL;
        dispatch->moved = true;
    }
}

static uint64_t on_next_ns(const void *arg)
{
    const struct dispatch *dispatch = arg;
    uint64_t next_ns = 0;
    if (!dispatch->blocked)
        return 0;
    list_for_each_safe (&dispatch->busy, node, after) {
        const struct dispatch_lane *lane = container_of(node, struct dispatch_lane, busy);
        uint64_t at_ns = lane->heard_ns + away_limit_ns(lane);
        if (!lane->away && (!next_ns || at_ns < next_ns))
            next_ns = at_ns;
    }
    return next_ns;
}

/* ---- what rendezvous tells ---------------------------------------------------------------- */

static void on_lane_init(void *arg, struct dispatch_lane *lane)
{
    (void)arg;
    list_init(&lane->transfers);
}

static void on_lane_ready(void *arg, struct dispatch_lane *lane, uint32_t rail,
                          uint64_t window_bytes)
{
    assert(rail < DISPATCH_RAILS_MAX && !lane->in_flight_bytes);
    lane->rail = rail;
    lane->window_bytes = window_bytes;
    lane_trace_name(arg, lane);
}

static void on_add(void *arg, struct transfer *transfer)
{
    struct dispatch *dispatch = arg;
    struct dispatch_lane *lane = transfer->lane;
    list_push_back(&lane->transfers, &transfer->node);
    if (!list_linked(&lane->active))
        list_push_back(&dispatch->active, &lane->active);
    dispatch->moved = true;
}

static void on_posted(void *arg, struct transfer *transfer)
{
    struct dispatch *dispatch = arg;
    (void)transfer;
    dispatch->moved = true;
}

static void bytes_return(struct dispatch *dispatch, struct dispatch_lane *lane,
                         uint64_t bytes)
{
    struct rail_window *rail = &dispatch->rails[lane->rail];
    uint64_t counted = lane->away ? 0 : bytes;
    assert(lane->in_flight_bytes >= bytes && rail->bytes >= counted);
    lane->in_flight_bytes -= bytes;
    rail->bytes -= counted;
    dispatch->moved = true;
    lane_trace(dispatch, lane);
    if (lane->in_flight_bytes)
        return;
    lane->away = false;
    list_remove(&lane->busy);
    if (rail->over == lane)
        rail->over = NULL;
}

static void on_credit(void *arg, struct transfer *transfer, uint64_t bytes)
{
    struct dispatch *dispatch = arg;
    struct dispatch_lane *lane = transfer->lane;
    lane_heard(dispatch, lane);
    bytes_return(dispatch, lane, bytes);
    if (lane->timed_ns &&
        lane->started_bytes - lane->in_flight_bytes >= lane->timed_bytes)
        turn_take(lane, lane->heard_ns);
}

static void on_remove(void *arg, struct transfer *transfer)
{
    struct dispatch *dispatch = arg;
    struct dispatch_lane *lane = transfer->lane;
    list_remove(&transfer->node);
    if (list_empty(&lane->transfers))
        list_remove(&lane->active);
    dispatch->moved = true; /* what stood behind it may fit */
    lane->timed_ns = 0;     /* nobody acknowledges what is forgotten here */
    for (uint32_t i = transfer->upto; i < transfer->next; i++)
        bytes_return(dispatch, lane, transfer_slice_bytes(transfer, i));
}

/* ---- starting slices ---------------------------------------------------------------------- */

/** May `bytes` more be in flight under `window`? One slice may always be. */
static bool window_has_room(uint64_t in_flight, uint64_t bytes, uint64_t window)
{
    return in_flight == 0 || in_flight + bytes <= window;
}

/** Has the lane's rail room, or may the lane overdraw it? */
static bool rail_has_room(const struct dispatch *dispatch,
                          const struct dispatch_lane *lane, uint64_t bytes)
{
    const struct rail_window *rail = &dispatch->rails[lane->rail];
    return window_has_room(rail->bytes, bytes, dispatch->params.rail_window_bytes) ||
           (!lane->in_flight_bytes && !rail->over);
}

/** The oldest transfer whose receiver has a slice posted, or NULL. */
static struct transfer *lane_next(const struct dispatch_lane *lane)
{
    list_for_each_safe (&lane->transfers, node, after) {
        struct transfer *transfer = container_of(node, struct transfer, node);
        if (transfer->next < transfer->posted)
            return transfer;
    }
    return NULL;
}

/** `bytes` of the lane have left. */
static void bytes_take(struct dispatch *dispatch, struct dispatch_lane *lane,
                       uint64_t bytes)
{
    struct rail_window *rail = &dispatch->rails[lane->rail];
    uint64_t now_ns = clock_now_ns(dispatch->params.clock);
    if (!window_has_room(rail->bytes, bytes, dispatch->params.rail_window_bytes))
        rail->over = lane;
    if (!lane->in_flight_bytes) {
        list_push_back(&dispatch->busy, &lane->busy);
        lane->heard_ns = now_ns;
    }
    lane->started_bytes += bytes;
    if (!lane->timed_ns) {
        lane->timed_ns = now_ns;
        lane->timed_bytes = lane->started_bytes;
    }
    lane->in_flight_bytes += bytes;
    if (lane->in_flight_bytes > lane->in_flight_high_bytes)
        lane->in_flight_high_bytes = lane->in_flight_bytes;
    rail->bytes += lane->away ? 0 : bytes;
    lane_trace(dispatch, lane);
}

/** Start one slice of the lane; false when it has none that may start. */
static bool lane_start_one(struct dispatch *dispatch, struct dispatch_lane *lane)
{
    struct transfer *transfer = lane_next(lane);
    if (!transfer)
        return false;
    uint64_t bytes = transfer_slice_bytes(transfer, transfer->next);
    if (!window_has_room(lane->in_flight_bytes, bytes, lane_window(dispatch, lane)))
        return false;
    if (!rail_has_room(dispatch, lane, bytes)) {
        dispatch->blocked = true;
        return false;
    }
    if (dispatch->params.start(transfer) != TRYST_OK) {
        dispatch->moved = true; /* the transport had no room: again in the next pass */
        return false;
    }
    transfer->next++;
    bytes_take(dispatch, lane, bytes);
    if (transfer->next == transfer->slices)
        list_remove(&transfer->node); /* all under way; DONE finds it through its want */
    return true;
}

/** One slice for each lane that can. Who got one is behind those who did not, also in the next run:
 *  a rail's window comes back slice by slice, and goes round. */
static int round_start(struct dispatch *dispatch)
{
    struct list turn;
    struct list served;
    struct list_node *node;
    int started = 0;
    list_init(&turn);
    list_init(&served);
    list_append(&turn, &dispatch->active);
    while ((node = list_pop_front(&turn)) != NULL) {
        struct dispatch_lane *lane = container_of(node, struct dispatch_lane, active);
        bool has_started = lane_start_one(dispatch, lane);
        started += has_started;
        if (!list_empty(&lane->transfers) && !list_linked(node))
            list_push_back(has_started ? &served : &dispatch->active, node);
    }
    list_append(&dispatch->active, &served);
    return started;
}

static int on_run(void *arg)
{
    struct dispatch *dispatch = arg;
    int started = 0;
    int round;
    if (!dispatch->moved)
        return 0;
    dispatch->moved = dispatch->blocked = false;
    while ((round = round_start(dispatch)) > 0)
        started += round;
    return started;
}

const struct dispatch_ops dispatch_ops = {.lane_init = on_lane_init,
                                          .lane_ready = on_lane_ready,
                                          .add = on_add,
                                          .posted = on_posted,
                                          .credit = on_credit,
                                          .remove = on_remove,
                                          .run = on_run,
                                          .look = on_look,
                                          .next_ns = on_next_ns};
