/* SPDX-License-Identifier: Apache-2.0 */
/*
 * First come, first served under byte windows; see dispatch.h for the idea and the invariants.
 * Callers: rendezvous, through dispatch_ops, in the progress domain.
 */
#include "dispatch.h"

#include <assert.h>

#include "core/alloc.h"

enum { RAILS_MAX = 16 };

struct dispatch {
    struct dispatch_params params;
    struct list active; /* lanes with transfers that have slices left to start */
    uint64_t rail_bytes[RAILS_MAX];
    bool moved; /* something changed since the last run */
};

tryst_status dispatch_open(const struct dispatch_params *params,
                           struct dispatch **dispatch_p)
{
    struct dispatch *dispatch = mem_zalloc(sizeof *dispatch);
    if (!dispatch)
        return TRYST_E_NOMEM;
    dispatch->params = *params;
    list_init(&dispatch->active);
    *dispatch_p = dispatch;
    return TRYST_OK;
}

void dispatch_close(struct dispatch *dispatch)
{
    mem_free(dispatch);
}

uint64_t dispatch_rail_bytes(const struct dispatch *dispatch, uint32_t rail)
{
    return dispatch->rail_bytes[rail];
}

/* ---- what rendezvous tells ---------------------------------------------------------------- */

static void on_lane_init(void *arg, struct dispatch_lane *lane, uint32_t rail)
{
    (void)arg;
    assert(rail < RAILS_MAX);
    list_init(&lane->transfers);
    lane->rail = rail;
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
    assert(lane->in_flight_bytes >= bytes && dispatch->rail_bytes[lane->rail] >= bytes);
    lane->in_flight_bytes -= bytes;
    dispatch->rail_bytes[lane->rail] -= bytes;
    dispatch->moved = true;
}

static void on_credit(void *arg, struct transfer *transfer, uint64_t bytes)
{
    bytes_return(arg, transfer->lane, bytes);
}

static void on_remove(void *arg, struct transfer *transfer)
{
    struct dispatch *dispatch = arg;
    struct dispatch_lane *lane = transfer->lane;
    list_remove(&transfer->node);
    if (list_empty(&lane->transfers))
        list_remove(&lane->active);
    dispatch->moved = true; /* what stood behind it may fit */
    for (uint32_t i = transfer->upto; i < transfer->next; i++)
        bytes_return(dispatch, lane, transfer_slice_bytes(transfer, i));
}

/* ---- starting slices ---------------------------------------------------------------------- */

/** May `bytes` more be in flight under `window`? One slice may always be. */
static bool window_has_room(uint64_t in_flight, uint64_t bytes, uint64_t window)
{
    return in_flight == 0 || in_flight + bytes <= window;
}

static uint64_t lane_window(const struct dispatch *dispatch,
                            const struct dispatch_lane *lane)
{
    uint64_t window = dispatch->params.window_bytes;
    return dispatch->params.window_is_set || window > lane->window_bytes
               ? window
               : lane->window_bytes;
}

static bool lane_has_room(const struct dispatch *dispatch,
                          const struct dispatch_lane *lane, uint64_t bytes)
{
    return window_has_room(lane->in_flight_bytes, bytes, lane_window(dispatch, lane)) &&
           window_has_room(dispatch->rail_bytes[lane->rail], bytes,
                           dispatch->params.rail_window_bytes);
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

/** Start one slice of the lane; false when it has none that may start. */
static bool lane_start_one(struct dispatch *dispatch, struct dispatch_lane *lane)
{
    struct transfer *transfer = lane_next(lane);
    if (!transfer)
        return false;
    uint64_t bytes = transfer_slice_bytes(transfer, transfer->next);
    if (!lane_has_room(dispatch, lane, bytes))
        return false;
    if (dispatch->params.start(transfer) != TRYST_OK) {
        dispatch->moved = true; /* the transport had no room: again in the next pass */
        return false;
    }
    transfer->next++;
    lane->in_flight_bytes += bytes;
    if (lane->in_flight_bytes > lane->in_flight_high_bytes)
        lane->in_flight_high_bytes = lane->in_flight_bytes;
    dispatch->rail_bytes[lane->rail] += bytes;
    if (transfer->next == transfer->slices)
        list_remove(&transfer->node); /* all under way; DONE finds it through its want */
    if (list_empty(&lane->transfers))
        list_remove(&lane->active);
    return true;
}

/** One slice for each lane that can, in turn. */
static int round_start(struct dispatch *dispatch)
{
    int started = 0;
    /* lane_start_one removes its own lane alone, which the analyzer cannot know.
     * NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
    list_for_each_safe (&dispatch->active, node, after)
        started +=
            lane_start_one(dispatch, container_of(node, struct dispatch_lane, active));
    return started;
}

static int on_run(void *arg)
{
    struct dispatch *dispatch = arg;
    int started = 0;
    int round;
    if (!dispatch->moved)
        return 0;
    dispatch->moved = false;
    while ((round = round_start(dispatch)) > 0)
        started += round;
    return started;
}

const struct dispatch_ops dispatch_ops = {.lane_init = on_lane_init,
                                          .add = on_add,
                                          .posted = on_posted,
                                          .credit = on_credit,
                                          .remove = on_remove,
                                          .run = on_run};
