/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The preemptive scheduler; see sched.h for the order and the invariants.
 *
 * Shape: for each class a rail queues its lanes, ordered by the most urgent transfer that
 * could start a slice, and a lane queues these transfers. So the next slice belongs to
 * the first transfer of the first lane. A lane without window leaves its queue until its
 * next credit, a transfer without a posted slice until the next one is posted, and a lane
 * without room at the transport until the next run.
 *
 * Thread: the progress domain.
 */
#include "sched.h"

#include "core/log/trace_text.h"

#include <assert.h>
#include <stdio.h>

#include "core/memory/alloc.h"
#include "lane_time.h"
#include "path.h"
#include "rail.h"

struct rail_window {
    uint64_t bytes; /* in flight on lanes that are not stalled */
    uint64_t window_bytes;
    struct rail_rate rate;
    const struct sched_lane *overdraft; /* has a slice beyond the window; or NULL */
    struct urgent_queue lanes[URGENCY_CLASSES]; /* with a slice that may start */
    uint64_t deficit_bytes;                     /* of the background (deficit_update) */
};

struct sched {
    struct sched_params params;
    struct list busy; /* lanes with bytes in flight */
    struct rail_window rails[SCHED_RAILS_MAX];
    uint32_t rails_count; /* one more than the highest rail of a lane */
    bool moved;           /* a queue or a window changed since the last run */
    bool blocked;         /* a slice did not fit a rail's window in the last run */
};

static void rail_follow(struct rail_window *rail)
{
    rail->window_bytes = rail_window_bytes(&rail->rate);
}

static void rail_init(struct rail_window *rail, uint64_t set_window_bytes)
{
    rail->rate.set_window_bytes = set_window_bytes;
    rail_follow(rail);
    for (int kind = 0; kind < URGENCY_CLASSES; kind++)
        urgent_init(&rail->lanes[kind]);
}

tryst_status sched_open(const struct sched_params *params, struct sched **sched_p)
{
    struct sched *sched = mem_zalloc(sizeof *sched);
    if (!sched)
        return TRYST_E_NOMEM;
    sched->params = *params;
    list_init(&sched->busy);
    for (uint32_t i = 0; i < SCHED_RAILS_MAX; i++)
        rail_init(&sched->rails[i], params->rail_window_bytes);
    *sched_p = sched;
    return TRYST_OK;
}

void sched_close(struct sched *sched)
{
    mem_free(sched);
}

uint64_t sched_rail_bytes(const struct sched *sched, uint32_t rail)
{
    return sched->rails[rail].bytes;
}

/* ---- trace ------------------------------------------------------------------------- */

static void lane_trace_name(const struct sched *sched, struct sched_lane *lane)
{
    char text[48];
    if (!sched->params.trace)
        return;
    (void)snprintf(text, sizeof text, "bytes in flight to rank %d", (int)lane->rank);
    lane->trace_name = trace_text(sched->params.trace, text);
}

static void lane_trace(const struct sched *sched, const struct sched_lane *lane)
{
    static const struct trace_labels labels = {{"in flight", "window", "slice"}, 0};
    trace_counter(sched->params.trace, lane->trace_name, &labels, lane->in_flight_bytes,
                  lane->path.window_bytes, lane->path.slice_bytes);
}

/* ---- stalled peers ----------------------------------------------------------------- */

/* Return how old a timed slice may become before its lane counts as stalled. */
static uint64_t stall_limit_ns(const struct sched_lane *lane)
{
    uint64_t srtts_ns = SCHED_STALL_SRTTS * lane->srtt_ns;
    if (srtts_ns > SCHED_STALL_MAX_NS)
        return SCHED_STALL_MAX_NS;
    return srtts_ns > SCHED_STALL_NS ? srtts_ns : SCHED_STALL_NS;
}

/* Return when the lane stalls. The age of the timed slice counts, since a peer may return
 * one slice now and then and hold all others; between two timed slices the last credit
 * counts. */
static uint64_t stall_at_ns(const struct sched_lane *lane)
{
    uint64_t since_ns = lane->path.round_ns ? lane->path.round_ns : lane->credited_ns;
    return since_ns + stall_limit_ns(lane);
}

/* Return the part of `bytes` in flight on the lane that counts at its rail. */
static uint64_t lane_counts(const struct rail_window *rail, const struct sched_lane *lane,
                            uint64_t bytes)
{
    uint64_t half = rail->window_bytes / 2;
    if (lane->stalled)
        return 0;
    return lane->probation && bytes > half ? half : bytes;
}

static void lane_recount(struct sched *sched, struct sched_lane *lane)
{
    struct rail_window *rail = &sched->rails[lane->rail];
    uint64_t counted = lane_counts(rail, lane, lane->in_flight_bytes);
    assert(rail->bytes >= lane->counted_bytes);
    rail->bytes += counted - lane->counted_bytes;
    lane->counted_bytes = counted;
}

/* Add a sample to the lane's srtt. The sample is capped, since a peer that was
 * stopped must not count as a slow one: the limit at most doubles. */
static void srtt_update(struct sched_lane *lane, uint64_t sample_ns)
{
    uint64_t most_ns = 2 * stall_limit_ns(lane);
    sample_ns = sample_ns < most_ns ? sample_ns : most_ns;
    lane->srtt_ns = lane->srtt_ns ? (7 * lane->srtt_ns + sample_ns) / 8 : sample_ns;
}

/* Note that the lane's timed slice took `spent_ns`. A stalled lane counts against its
 * rail again; other lanes get half of the window while it is on probation. */
static void lane_round_over(struct sched *sched, struct sched_lane *lane,
                            uint64_t spent_ns)
{
    if (!lane->path.sample_invalid)
        srtt_update(lane, spent_ns);
    lane->probation -= !lane->stalled && lane->probation;
    lane->stalled = false;
    lane_recount(sched, lane);
}

void sched_timer(struct sched *sched, uint64_t now_ns)
{
    if (!sched->blocked)
        return;
    list_for_each_safe (&sched->busy, node, after) {
        struct sched_lane *lane = container_of(node, struct sched_lane, busy);
        struct rail_window *rail = &sched->rails[lane->rail];
        if (lane->stalled || now_ns < stall_at_ns(lane))
            continue;
        lane->stalled = true;
        lane->probation = SCHED_PROBATION_ROUNDS;
        lane_recount(sched, lane);
        if (rail->overdraft == lane)
            rail->overdraft = NULL;
        sched->moved = true;
    }
}

uint64_t sched_next_ns(const struct sched *sched)
{
    uint64_t next_ns = 0;
    if (!sched->blocked)
        return 0;
    list_for_each_safe (&sched->busy, node, after) {
        const struct sched_lane *lane = container_of(node, struct sched_lane, busy);
        uint64_t at_ns = stall_at_ns(lane);
        if (!lane->stalled && (!next_ns || at_ns < next_ns))
            next_ns = at_ns;
    }
    return next_ns;
}

/* ---- queues ------------------------------------------------------------------------ */

static struct transfer *ready_first(struct sched_lane *lane, enum urgency_class kind)
{
    struct urgent_node *node = urgent_first(&lane->ready[kind]);
    return node ? container_of(node, struct transfer, node) : NULL;
}

/* Remove the lane from its rail's queues. */
static void lane_unqueue(struct sched_lane *lane)
{
    for (int kind = 0; kind < URGENCY_CLASSES; kind++)
        (void)urgent_remove(&lane->nodes[kind]);
}

/* Queue the lane at its rail by its most urgent transfers. Called after each change
 * of lane->ready and when a lane that had left the queues may start again. */
static void lane_queue(struct sched *sched, struct sched_lane *lane)
{
    for (int kind = 0; kind < URGENCY_CLASSES; kind++) {
        struct urgent_node *node = &lane->nodes[kind];
        const struct transfer *first = ready_first(lane, kind);
        if (first && urgent_queued(node) && node->urgency == &first->urgency)
            continue;
        (void)urgent_remove(node);
        if (first)
            urgent_push(&sched->rails[lane->rail].lanes[kind], node, &first->urgency);
        sched->moved = true;
    }
}

/* Put the transfer into its lane's queue while its next slice is posted and ready. */
static void transfer_queue(struct sched *sched, struct transfer *transfer)
{
    struct sched_lane *lane = transfer->lane;
    if (!transfer_may_start(transfer))
        (void)urgent_remove(&transfer->node);
    else if (!urgent_queued(&transfer->node))
        urgent_push(&lane->ready[urgency_class(&transfer->urgency)], &transfer->node,
                    &transfer->urgency);
    lane_time_transfer(transfer, sched->params.clock);
    lane_queue(sched, lane);
}

static void transfer_unqueue(struct sched *sched, struct transfer *transfer)
{
    (void)urgent_remove(&transfer->node);
    lane_queue(sched, transfer->lane);
}

/* ---- events of rendezvous ---------------------------------------------------------- */

void sched_lane_init(struct sched *sched, struct sched_lane *lane)
{
    for (int kind = 0; kind < URGENCY_CLASSES; kind++)
        urgent_init(&lane->ready[kind]);
    lane_time_begin(lane, clock_now_ns(sched->params.clock));
}

void sched_lane_ready(struct sched *sched, struct sched_lane *lane, uint32_t rail,
                      uint64_t window_bytes, uint64_t rail_bytes_per_s)
{
    assert(rail < SCHED_RAILS_MAX && !lane->in_flight_bytes);
    lane_unqueue(lane);
    lane->rail = rail;
    sched->rails[rail].rate.bytes_per_s = rail_bytes_per_s;
    rail_follow(&sched->rails[rail]);
    path_open(&lane->path, sched->params.window_bytes, window_bytes);
    if (rail >= sched->rails_count)
        sched->rails_count = rail + 1;
    lane_queue(sched, lane);
    lane_trace_name(sched, lane);
}

void sched_add(struct sched *sched, struct transfer *transfer)
{
    transfer_queue(sched, transfer);
}

void sched_posted(struct sched *sched, struct transfer *transfer)
{
    transfer_queue(sched, transfer);
}

void sched_raise(struct sched *sched, struct transfer *transfer, uint64_t sort_key)
{
    if (sort_key >= transfer->urgency.sort_key)
        return;
    transfer_unqueue(sched, transfer);
    transfer->urgency.sort_key = sort_key;
    transfer_queue(sched, transfer);
}

static void bytes_return(struct sched *sched, struct sched_lane *lane, uint64_t bytes)
{
    struct rail_window *rail = &sched->rails[lane->rail];
    assert(lane->in_flight_bytes >= bytes);
    lane->in_flight_bytes -= bytes;
    lane_recount(sched, lane);
    sched->moved = true;
    lane_trace(sched, lane);
    lane_queue(sched, lane);
    if (lane->in_flight_bytes)
        return;
    lane->stalled = false;
    list_remove(&lane->busy);
    if (rail->overdraft == lane)
        rail->overdraft = NULL;
}

static void rail_trip_update(struct rail_window *rail, uint64_t now_ns, uint64_t spent_ns,
                             uint64_t bytes)
{
    rail_trip_add(&rail->rate, now_ns, spent_ns, bytes);
    rail_follow(rail);
}

void sched_credit(struct sched *sched, struct transfer *transfer, uint64_t bytes)
{
    struct sched_lane *lane = transfer->lane;
    lane->credited_ns = clock_now_ns(sched->params.clock);
    bytes_return(sched, lane, bytes);
    lane_time_follow(lane, lane->credited_ns);
    uint64_t rtt_probe_bytes = path_probe_bytes(&lane->path);
    uint64_t srtt_ns = path_returned(&lane->path, lane->credited_ns, lane->started_bytes,
                                     lane->in_flight_bytes);
    if (srtt_ns)
        lane_round_over(sched, lane, srtt_ns);
    if (srtt_ns && rtt_probe_bytes)
        rail_trip_update(&sched->rails[lane->rail], lane->credited_ns, srtt_ns,
                         rtt_probe_bytes);
}

void sched_remove(struct sched *sched, struct transfer *transfer)
{
    struct sched_lane *lane = transfer->lane;
    transfer_unqueue(sched, transfer); /* transfers behind it may fit */
    if (transfer->upto < transfer->next)
        path_forget(&lane->path); /* no DONE will end the round */
    for (uint32_t i = transfer->upto; i < transfer->next; i++)
        bytes_return(sched, lane, transfer_slice_bytes(transfer, i));
    lane_time_remove(transfer, sched->params.clock);
}

void sched_pause(struct sched *sched, struct sched_lane *lane)
{
    if (lane) {
        path_sample_drop(&lane->path);
        return;
    }
    list_for_each_safe (&sched->busy, node, after)
        path_sample_drop(&container_of(node, struct sched_lane, busy)->path);
}

/* ---- starting slices --------------------------------------------------------------- */

enum start { STARTED, LANE_FULL, RAIL_FULL, TRANSPORT_FULL };

/* True if `bytes` more fit the window. A single slice always fits. */
static bool window_has_room(uint64_t in_flight, uint64_t bytes, uint64_t window)
{
    return in_flight == 0 || in_flight + bytes <= window;
}

/* True if the lane's share of its rail has room: beside other lanes, a lane on probation
 * gets half of the window, or a single slice. */
static bool share_has_room(const struct sched *sched, const struct sched_lane *lane,
                           uint64_t bytes)
{
    const struct rail_window *rail = &sched->rails[lane->rail];
    bool beside = rail->bytes > lane->counted_bytes;
    return !lane->probation || !beside ||
           window_has_room(lane->in_flight_bytes, bytes, rail->window_bytes / 2);
}

static bool rail_window_has_room(const struct rail_window *rail,
                                 const struct sched_lane *lane, uint64_t bytes)
{
    uint64_t others = rail->bytes - lane->counted_bytes;
    uint64_t own = lane->stalled ? 0 : lane->in_flight_bytes;
    return window_has_room(others + own, bytes, rail->window_bytes);
}

/* True if the rail has room. A lane with nothing in flight may overdraw the rail by
 * the rail's most urgent slice, one lane at a time. */
static bool rail_has_room(const struct sched *sched, const struct sched_lane *lane,
                          uint64_t bytes)
{
    const struct rail_window *rail = &sched->rails[lane->rail];
    return rail_window_has_room(rail, lane, bytes) ||
           (!lane->in_flight_bytes && !rail->overdraft);
}

/* Count `bytes` of the transfer as in flight. */
static void bytes_start(struct sched *sched, const struct transfer *transfer,
                        uint64_t bytes)
{
    struct sched_lane *lane = transfer->lane;
    struct rail_window *rail = &sched->rails[lane->rail];
    uint64_t now_ns = clock_now_ns(sched->params.clock);
    if (!rail_window_has_room(rail, lane, bytes))
        rail->overdraft = lane;
    if (!lane->in_flight_bytes) {
        list_push_back(&sched->busy, &lane->busy);
        lane->credited_ns = now_ns;
    }
    path_started(&lane->path, now_ns, lane->started_bytes, lane->in_flight_bytes, bytes,
                 transfer->slices > 1 ? transfer->slice_bytes : 0);
    if (bytes > rail->window_bytes / 2)
        lane->probation = SCHED_PROBATION_ROUNDS;
    lane->started_bytes += bytes;
    lane->in_flight_bytes += bytes;
    if (lane->in_flight_bytes > lane->in_flight_high_bytes)
        lane->in_flight_high_bytes = lane->in_flight_bytes;
    lane_time_follow(lane, now_ns);
    lane_recount(sched, lane);
    lane_trace(sched, lane);
}

static struct transfer *rail_first(struct rail_window *rail, enum urgency_class kind)
{
    struct urgent_node *node = urgent_first(&rail->lanes[kind]);
    return node ? ready_first(container_of(node - kind, struct sched_lane, nodes), kind)
                : NULL;
}

/* Return the rail's next transfer, or NULL. Background comes next when training has
 * nothing to start, and when its deficit covers a slice. */
static struct transfer *rail_next(struct rail_window *rail)
{
    struct transfer *training = rail_first(rail, URGENCY_TRAINING);
    struct transfer *background = rail_first(rail, URGENCY_BACKGROUND);
    if (!training || !background)
        return training ? training : background;
    uint64_t bytes = transfer_slice_bytes(background, background->next);
    return rail->deficit_bytes >= bytes * (BACKGROUND_SHARE - 1) ? background : training;
}

/* Update the background's deficit (deficit round robin): `bytes` of `kind` started
 * while the other class waited. Bytes of training add to it, and a slice of the
 * background takes fifteen times its bytes: the background gets a sixteenth. */
static void deficit_update(struct rail_window *rail, enum urgency_class kind,
                           uint64_t bytes)
{
    if (kind == URGENCY_TRAINING)
        rail->deficit_bytes += bytes;
    else
        rail->deficit_bytes -= bytes * (BACKGROUND_SHARE - 1);
}

/* Start the transfer's next slice. */
static enum start slice_start(struct sched *sched, struct transfer *transfer)
{
    struct sched_lane *lane = transfer->lane;
    uint64_t bytes = transfer_slice_bytes(transfer, transfer->next);
    if (!path_has_room(&lane->path, lane->in_flight_bytes, bytes)) {
        path_limited(&lane->path);
        return LANE_FULL;
    }
    if (!share_has_room(sched, lane, bytes))
        return LANE_FULL;
    if (!rail_has_room(sched, lane, bytes))
        return RAIL_FULL;
    if (sched->params.start(transfer) != TRYST_OK)
        return TRANSPORT_FULL;
    /* When all slices are in flight, a DONE finds the transfer through its want. */
    transfer->next++;
    bytes_start(sched, transfer, bytes);
    return STARTED;
}

/* Queue a flow behind flows and lanes of equal urgency after each of its slices, so
 * that all trees of a collective move. */
static void flow_rotate(struct sched *sched, struct transfer *transfer)
{
    struct sched_lane *lane = transfer->lane;
    urgent_rotate(&transfer->node);
    lane_queue(sched, lane);
    urgent_rotate(&lane->nodes[urgency_class(&transfer->urgency)]);
}

/* Start slices of the rail's lanes while any may start. Lanes without room at the
 * transport go into `later`. */
static int rail_run(struct sched *sched, struct rail_window *rail, struct list *later)
{
    struct transfer *transfer;
    int started = 0;
    while ((transfer = rail_next(rail)) != NULL) {
        enum urgency_class kind = urgency_class(&transfer->urgency);
        bool contended = !urgent_empty(&rail->lanes[!kind]);
        enum start start = slice_start(sched, transfer);
        if (start == STARTED) {
            started++;
            if (contended)
                deficit_update(rail, kind,
                               transfer_slice_bytes(transfer, transfer->next - 1));
            transfer_queue(sched, transfer);
            if (transfer->round_robin)
                flow_rotate(sched, transfer);
            continue;
        }
        sched->blocked |= start == RAIL_FULL;
        if (start == RAIL_FULL)
            break;
        lane_unqueue(transfer->lane);
        if (start == TRANSPORT_FULL)
            list_push_back(later, &transfer->lane->later);
    }
    return started;
}

/* Run all rails. Not inlined: most runs have nothing to start. */
__attribute__((noinline)) static int rails_run(struct sched *sched)
{
    struct list_node *node;
    struct list later;
    int started = 0;
    sched->moved = sched->blocked = false;
    list_init(&later);
    for (uint32_t i = 0; i < sched->rails_count; i++)
        started += rail_run(sched, &sched->rails[i], &later);
    bool again = !list_empty(&later);
    while ((node = list_pop_front(&later)) != NULL)
        lane_queue(sched, container_of(node, struct sched_lane, later));
    sched->moved = again;
    return started;
}

/* ---- why a transfer waits ---------------------------------------------------------- */

/* Return the transfer of the lane or the rail that starts before this one, which is
 * ready; NULL: none does. */
static const struct transfer *transfer_before(struct sched *sched,
                                              const struct transfer *transfer)
{
    enum urgency_class kind = urgency_class(&transfer->urgency);
    struct rail_window *rail = &sched->rails[transfer->lane->rail];
    const struct transfer *first = ready_first(transfer->lane, kind);
    if (first != transfer)
        return first;
    if (!share_has_room(sched, transfer->lane,
                        transfer_slice_bytes(transfer, transfer->next)))
        return NULL;
    if (!path_has_room(&transfer->lane->path, transfer->lane->in_flight_bytes,
                       transfer_slice_bytes(transfer, transfer->next)))
        return NULL;
    first = rail_next(rail);
    return first != transfer ? first : NULL;
}

uint64_t sched_rail_window(const struct sched *sched, uint32_t rail)
{
    return sched->rails[rail].window_bytes;
}

enum transfer_hold sched_held_by(struct sched *sched, const struct transfer *transfer,
                                 const struct transfer **before_p)
{
    const struct sched_lane *lane = transfer->lane;
    *before_p = NULL;
    if (transfer->next == transfer->slices)
        return HOLD_NONE;
    if (transfer->next == transfer->ready)
        return HOLD_UNREADY;
    if (transfer->next == transfer->posted)
        return HOLD_UNPOSTED;
    uint64_t bytes = transfer_slice_bytes(transfer, transfer->next);
    *before_p = transfer_before(sched, transfer);
    if (*before_p)
        return HOLD_BEHIND;
    if (!path_has_room(&transfer->lane->path, lane->in_flight_bytes, bytes))
        return HOLD_WINDOW;
    bool room = share_has_room(sched, lane, bytes) && rail_has_room(sched, lane, bytes);
    return room ? HOLD_TRANSPORT : HOLD_RAIL;
}

int sched_run(struct sched *sched)
{
    return sched->moved ? rails_run(sched) : 0;
}
