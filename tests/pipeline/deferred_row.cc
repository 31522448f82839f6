/* SPDX-License-Identifier: Apache-2.0 */
/* See deferred_row.h. An operation becomes a closure in its lane's queue; structures that
 * calls take by pointer are copied, as a launch on a device copies its arguments. */
extern "C" {
#include "deferred_row.h"
}

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>

/* How often the event was recorded, and how many of these records were reached. */
struct deferred_event {
    uint64_t recorded, reached;
};

/* A closure, or a wait for an event's record. */
struct deferred_entry {
    std::function<void()> run;
    deferred_event *event;
    uint64_t record;
};

/* Only one session at a time is deferred: the stage's. */
static std::deque<deferred_entry> lanes[DEVICE_LANES];
static int order;
static uint64_t random_state;
static device_kernels row;

static const device_kernels *plain(void)
{
    return &device_kernels_reference;
}

/* ---- queueing ---------------------------------------------------------------------- */

template <typename T> struct held {
    T value;
    explicit held(T from) : value(from)
    {
    }
    T get() const
    {
        return value;
    }
};

template <typename T> struct held_copy {
    T value;
    explicit held_copy(const T *from) : value(*from)
    {
    }
    const T *get() const
    {
        return &value;
    }
};

template <> struct held<const device_product *> : held_copy<device_product> {
    using held_copy::held_copy;
};
template <> struct held<const device_attention *> : held_copy<device_attention> {
    using held_copy::held_copy;
};
template <> struct held<const device_update *> : held_copy<device_update> {
    using held_copy::held_copy;
};
template <> struct held<const device_prediction *> : held_copy<device_prediction> {
    using held_copy::held_copy;
};

template <typename... A, typename... H>
static void push(const device_lane *lane, void (*operation)(const device_lane *, A...),
                 H... holds)
{
    lanes[lane->index].push_back(
        {[=]() { operation(lane, holds.get()...); }, nullptr, 0});
}

template <auto SLOT> struct deferred;
template <typename... A, void (*device_kernels::*SLOT)(const device_lane *, A...)>
struct deferred<SLOT> {
    static void call(const device_lane *lane, A... arguments)
    {
        push(lane, plain()->*SLOT, held<A>(arguments)...);
    }
};

/* ---- events ------------------------------------------------------------------------ */

static tryst_status event_open(device_session *session, void **event_p)
{
    (void)session;
    *event_p = new deferred_event();
    return TRYST_OK;
}

static void event_close(device_session *session, void *event)
{
    (void)session;
    delete (deferred_event *)event;
}

static void event_record(const device_lane *lane, void *data)
{
    deferred_event *event = (deferred_event *)data;
    const uint64_t record = ++event->recorded;
    lanes[lane->index].push_back({[=]() { event->reached = record; }, nullptr, 0});
}

/* Wait for the newest record at the time of the call, as cudaStreamWaitEvent does. */
static void event_wait(const device_lane *lane, void *data)
{
    deferred_event *event = (deferred_event *)data;
    lanes[lane->index].push_back({nullptr, event, event->recorded});
}

/* ---- running ----------------------------------------------------------------------- */

static bool is_ready(const std::deque<deferred_entry> &lane)
{
    return !lane.empty() &&
           (!lane.front().event || lane.front().event->reached >= lane.front().record);
}

static int choose(bool first, bool second)
{
    if (!first || !second) {
        return first ? 0 : 1;
    }
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return order == DEFERRED_COMPUTE_FIRST  ? DEVICE_COMPUTE
           : order == DEFERRED_WEIGHT_FIRST ? DEVICE_WEIGHT
                                            : (int)(random_state >> 63);
}

/* Run everything in the queues of both lanes. */
static tryst_status lane_idle(const device_lane *)
{
    while (!lanes[0].empty() || !lanes[1].empty()) {
        const bool first = is_ready(lanes[0]), second = is_ready(lanes[1]);
        if (!first && !second) {
            fprintf(
                stderr,
                "deferred row: deadlock: each lane waits for an event of the other\n");
            abort();
        }
        std::deque<deferred_entry> &lane = lanes[choose(first, second)];
        const deferred_entry entry = lane.front();
        lane.pop_front();
        if (entry.run) {
            entry.run();
        }
    }
    return TRYST_OK;
}

static tryst_status session_open(int32_t device, tryst_precision precision,
                                 device_session **session_p, char *error, size_t capacity)
{
    const tryst_status status =
        plain()->open(device, precision, session_p, error, capacity);
    if (status == TRYST_OK) {
        (*session_p)->kernels = &row;
    }
    return status;
}

static void session_copy(device_session *session, void *to, const void *from,
                         uint64_t bytes)
{
    lanes[DEVICE_COMPUTE].push_back(
        {[=]() { plain()->copy(session, to, from, bytes); }, nullptr, 0});
}

extern "C" const device_kernels *deferred_row(int with, uint64_t seed)
{
    order = with;
    random_state = seed;
    row = device_kernels_reference;
    row.name = "deferred";
    row.open = session_open;
    row.idle = lane_idle;
    row.copy = session_copy;
    row.event_open = event_open;
    row.event_close = event_close;
    row.event_record = event_record;
    row.event_wait = event_wait;
#define DEFER(slot) row.slot = deferred<&device_kernels::slot>::call
    DEFER(product);
    DEFER(column_sum);
    DEFER(embedding_forward);
    DEFER(embedding_backward);
    DEFER(norm_forward);
    DEFER(norm_backward_input);
    DEFER(norm_backward_weight);
    DEFER(attention_forward);
    DEFER(attention_backward);
    DEFER(gelu_backward);
    DEFER(add);
    DEFER(duplicate);
    DEFER(cross_entropy_forward);
    DEFER(cross_entropy_backward);
    DEFER(loss_mean);
    DEFER(update);
    DEFER(predict);
    DEFER(round);
#undef DEFER
    return &row;
}
