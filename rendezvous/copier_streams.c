/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The streams of a copier.
 *
 * Idea: each device has two streams, one per direction, so that neither direction waits
 * for the other. A stream copies in order, so the pieces in flight are a ring, and only
 * the oldest piece's event is polled. A piece is chosen as late as possible: it goes to
 * the driver only when few enough bytes are in flight, and then comes from the most
 * urgent range that may copy; equally urgent ranges, those of one collective, take turns,
 * since its trees move in step. A `ready` event is polled by the host. If the stream
 * waited for the event instead, every other range would wait behind it.
 *
 * Invariants:
 * - A range is in its stream's queue exactly while it is OPEN, has bytes to copy below
 *   its limit, and does not stop.
 * - A range ends only when none of its pieces is in flight. An event that cannot be
 *   recorded or polled is tried again. After FAILS_MAX failures in a row the device
 *   counts as lost, and so does the piece.
 */
#include "copier_streams.h"

#include <assert.h>
#include <stdio.h>

#include "core/memory/alloc.h"
#include "transports/memory/memory_ops.h"

static_assert(COPIER_TEXT_BYTES == MEMORY_TEXT_MAX, "a reason of the driver fits");

enum {
    FAILS_MAX = 16,
    PIECES_MAX = 32 /* pieces in flight in one direction, where ranges are small */
};

struct piece {
    struct copier_range *range;
    uint64_t bytes;
    void *event; /* kept for the next piece in this place of the ring */
    bool has_event, recorded;
    uint32_t fails;
};

struct copier_stream {
    void *stream;
    bool is_open;
    struct urgent_queue ranges; /* ranges that may copy */
    struct piece ring[PIECES_MAX];
    uint32_t first, count; /* pieces in flight: `count` from ring[first] on */
    uint64_t flying_bytes;
    uint64_t since_ns; /* when the oldest piece became the oldest */
};

struct home {
    struct list_node node;
    const struct memory_ops *ops;
    int32_t device;
    struct copier_stream streams[COPIER_WAYS];
};

void copier_streams_open(struct copier_streams *streams)
{
    *streams = (struct copier_streams){.ranges = 0};
    list_init(&streams->homes);
    list_init(&streams->held);
    list_init(&streams->reports);
}

static void stream_close(const struct home *home, struct copier_stream *stream)
{
    assert(stream->count == 0 && urgent_empty(&stream->ranges));
    for (int i = 0; i < PIECES_MAX; i++)
        if (stream->ring[i].has_event)
            home->ops->event_close(home->device, stream->ring[i].event);
    if (stream->is_open)
        home->ops->stream_close(home->device, stream->stream);
}

void copier_streams_close(struct copier_streams *streams)
{
    struct list_node *node;
    assert(streams->ranges == 0);
    while ((node = list_pop_front(&streams->homes)) != NULL) {
        struct home *home = container_of(node, struct home, node);
        for (int way = 0; way < COPIER_WAYS; way++)
            stream_close(home, &home->streams[way]);
        mem_free(home);
    }
}

/* Find or make the stream for a range. NULL: out of memory. */
static struct copier_stream *stream_of(struct copier_streams *streams,
                                       const struct copier_range *range)
{
    list_for_each_safe (&streams->homes, node, after) {
        struct home *home = container_of(node, struct home, node);
        if (home->ops == range->ops && home->device == range->device)
            return &home->streams[range->way];
    }
    struct home *home = mem_zalloc(sizeof *home);
    if (!home)
        return NULL;
    home->ops = range->ops;
    home->device = range->device;
    for (int way = 0; way < COPIER_WAYS; way++)
        urgent_init(&home->streams[way].ranges);
    list_push_back(&streams->homes, &home->node);
    return &home->streams[range->way];
}

/* ---- one range --------------------------------------------------------------------- */

static void range_report(struct copier_streams *streams, struct copier_range *range)
{
    if (!list_linked(&range->report))
        list_push_back(&streams->reports, &range->report);
}

/* Keep the first failure of a range, with its reason. */
static void range_fail(struct copier_range *range, tryst_status status, const char *text)
{
    range->stops = true;
    if (range->status != TRYST_OK)
        return;
    range->status = status;
    (void)snprintf(range->text, sizeof range->text, "%s", text);
}

static uint64_t done_bytes(const struct copier_range *range)
{
    /* relaxed: this thread alone stores it */
    return atomic_load_explicit(&range->done, memory_order_relaxed);
}

static void range_end(struct copier_streams *streams, struct copier_range *range)
{
    (void)list_remove(&range->node);
    range->state = COPIER_ENDED;
    if (range->status == TRYST_OK && done_bytes(range) < range->bytes)
        range->status = TRYST_E_CANCELED;
    streams->ranges--;
    range_report(streams, range);
}

/* Return the bytes of the next piece; 0: none may be copied now. */
static uint64_t piece_next(const struct copier_range *range)
{
    uint64_t bytes = range->room - range->queued;
    if (range->state != COPIER_OPEN || range->stops)
        return 0;
    if (range->bytes <= COPIER_WHOLE_BYTES && range->room < range->bytes)
        return 0;
    return bytes < COPIER_PIECE_BYTES ? bytes : COPIER_PIECE_BYTES;
}

/* Bring queue and state of a range up to date, after any change of the range. */
static void range_settle(struct copier_streams *streams, struct copier_range *range)
{
    if (piece_next(range) == 0)
        (void)urgent_remove(&range->turn);
    else if (!urgent_queued(&range->turn))
        urgent_push(&range->stream->ranges, &range->turn, &range->urgency);
    bool is_complete = range->state == COPIER_OPEN && done_bytes(range) == range->bytes;
    if ((range->stops || is_complete) && range->flying == 0)
        range_end(streams, range);
}

static void range_open(struct copier_streams *streams, struct copier_range *range)
{
    (void)list_remove(&range->node);
    range->state = COPIER_OPEN;
    range->stream = stream_of(streams, range);
    if (!range->stream)
        range_fail(range, TRYST_E_NOMEM, "out of memory");
}

static void range_take(struct copier_streams *streams, struct copier_range *range)
{
    range->is_known = true;
    range->state = COPIER_HELD;
    streams->ranges++;
    if (!range->ready) {
        range_open(streams, range);
        return;
    }
    list_push_back(&streams->held, &range->node);
    streams->held_nap_ns = COPIER_HELD_NAP_MIN_NS;
    streams->held_next_ns = 0;
}

void copier_streams_update(struct copier_streams *streams, struct copier_range *range)
{
    if (!range->is_known)
        range_take(streams, range);
    if (range->state == COPIER_ENDED)
        return;
    range->room = range->limit < range->bytes ? range->limit : range->bytes;
    range->stops = range->stops || range->is_canceled;
    if (range->is_urged) { /* the queue gets the range again */
        (void)urgent_remove(&range->turn);
        range->urgency = range->wanted;
        range->is_urged = false;
    }
    range_settle(streams, range);
}

/* ---- held ranges ------------------------------------------------------------------- */

/* Count consecutive failures. Returns TRYST_OK, TRYST_IN_PROGRESS (also for a failure),
 * or the status of failure FAILS_MAX: the event will never pass. */
static tryst_status fails_count(uint32_t *fails, tryst_status status)
{
    if (status == TRYST_OK || status == TRYST_IN_PROGRESS) {
        *fails = 0;
        return status;
    }
    return ++*fails < FAILS_MAX ? TRYST_IN_PROGRESS : status;
}

/* Poll the `ready` of a held range. False: it stays held. */
static bool ready_poll(struct copier_streams *streams, struct copier_range *range)
{
    tryst_status status =
        fails_count(&range->fails, range->ops->event_query(range->device, range->ready));
    if (status == TRYST_IN_PROGRESS)
        return false;
    if (status == TRYST_OK)
        range_open(streams, range);
    else
        range_fail(range, status, range->ops->error_text());
    range_settle(streams, range);
    return true;
}

static void held_poll(struct copier_streams *streams, uint64_t now_ns)
{
    bool any = false;
    if (now_ns < streams->held_next_ns)
        return;
    list_for_each_safe (&streams->held, node, after)
        any |= ready_poll(streams, container_of(node, struct copier_range, node));
    uint64_t nap_ns = any ? COPIER_HELD_NAP_MIN_NS : streams->held_nap_ns;
    streams->held_next_ns = now_ns + nap_ns;
    streams->held_nap_ns =
        2 * nap_ns < COPIER_HELD_NAP_MAX_NS ? 2 * nap_ns : COPIER_HELD_NAP_MAX_NS;
}

/* ---- pieces ------------------------------------------------------------------------ */

static void record_try(const struct home *home, const struct copier_stream *stream,
                       struct piece *piece)
{
    piece->recorded =
        home->ops->event_record(home->device, stream->stream, piece->event) == TRYST_OK;
}

static tryst_status stream_ready(const struct home *home, struct copier_stream *stream,
                                 struct piece *piece)
{
    tryst_status status = TRYST_OK;
    if (!stream->is_open) {
        status = home->ops->stream_open(home->device, true, &stream->stream);
        stream->is_open = status == TRYST_OK;
    }
    if (status == TRYST_OK && !piece->has_event) {
        status = home->ops->event_open(home->device, &piece->event);
        piece->has_event = status == TRYST_OK;
    }
    return status;
}

static tryst_status piece_copy(const struct home *home,
                               const struct copier_stream *stream,
                               const struct copier_range *range, uint64_t bytes)
{
    char *device_at = (char *)range->device_data + range->queued;
    char *host_at = (char *)range->host_data + range->queued;
    bool fetches = range->way == COPIER_FETCH;
    return home->ops->copy_async(home->device, stream->stream,
                                 fetches ? host_at : device_at,
                                 fetches ? device_at : host_at, bytes);
}

/* Queue the next piece of a range; the range fails if the driver refuses. */
static void piece_start(const struct home *home, struct copier_stream *stream,
                        struct copier_range *range, uint64_t bytes)
{
    struct piece *piece = &stream->ring[(stream->first + stream->count) % PIECES_MAX];
    tryst_status status = stream_ready(home, stream, piece);
    if (status == TRYST_OK)
        status = piece_copy(home, stream, range, bytes);
    if (status != TRYST_OK) {
        range_fail(range, status, home->ops->error_text());
        return;
    }
    piece->range = range;
    piece->bytes = bytes;
    piece->fails = 0;
    record_try(home, stream, piece);
    stream->count++;
    stream->flying_bytes += bytes;
    range->queued += bytes;
    range->flying++;
}

static void stream_fill(struct copier_streams *streams, const struct home *home,
                        struct copier_stream *stream, uint64_t now_ns)
{
    struct urgent_node *turn;
    if (stream->count == 0)
        stream->since_ns = now_ns;
    while (stream->count < PIECES_MAX && (turn = urgent_first(&stream->ranges)) != NULL) {
        struct copier_range *range = container_of(turn, struct copier_range, turn);
        uint64_t bytes = piece_next(range);
        if (bytes > COPIER_FLIGHT_BYTES - stream->flying_bytes)
            return;
        piece_start(home, stream, range, bytes);
        (void)urgent_remove(&range->turn); /* the ranges of a run take turns */
        range_settle(streams, range);
    }
}

static tryst_status piece_poll(const struct home *home,
                               const struct copier_stream *stream, struct piece *piece)
{
    if (!piece->recorded)
        record_try(home, stream, piece);
    return fails_count(&piece->fails, piece->recorded ? home->ops->event_query(
                                                            home->device, piece->event)
                                                      : TRYST_E_SYSTEM);
}

static void piece_end(struct copier_streams *streams, const struct home *home,
                      struct copier_stream *stream, tryst_status status)
{
    const struct piece *piece = &stream->ring[stream->first];
    struct copier_range *range = piece->range;
    stream->first = (stream->first + 1) % PIECES_MAX;
    stream->count--;
    stream->flying_bytes -= piece->bytes;
    range->flying--;
    if (status != TRYST_OK)
        range_fail(range, status, home->ops->error_text());
    /* after a failure the bytes before this piece may be missing */
    if (range->status == TRYST_OK) {
        atomic_fetch_add_explicit(&range->done, piece->bytes, memory_order_release);
        range_report(streams, range);
    }
    range_settle(streams, range);
}

static void stream_poll(struct copier_streams *streams, const struct home *home,
                        struct copier_stream *stream, uint64_t now_ns)
{
    while (stream->count > 0) {
        tryst_status status = piece_poll(home, stream, &stream->ring[stream->first]);
        if (status == TRYST_IN_PROGRESS)
            return;
        piece_end(streams, home, stream, status);
        stream->since_ns = now_ns;
    }
}

/* Return when to poll a stream again: the naps grow with the age of the oldest piece, so
 * that slow copies cost little. The pieces behind it keep the device busy meanwhile. */
static uint64_t stream_next(const struct copier_stream *stream, uint64_t now_ns)
{
    uint64_t nap_ns = (now_ns - stream->since_ns) / COPIER_NAP_SHARE;
    if (stream->count == 0)
        return UINT64_MAX;
    return now_ns + (nap_ns > COPIER_NAP_NS ? nap_ns : COPIER_NAP_NS);
}

uint64_t copier_streams_poll(struct copier_streams *streams, uint64_t now_ns)
{
    held_poll(streams, now_ns);
    uint64_t next_ns = list_empty(&streams->held) ? UINT64_MAX : streams->held_next_ns;
    list_for_each_safe (&streams->homes, node, after) {
        struct home *home = container_of(node, struct home, node);
        for (int way = 0; way < COPIER_WAYS; way++) {
            struct copier_stream *stream = &home->streams[way];
            stream_poll(streams, home, stream, now_ns);
            stream_fill(streams, home, stream, now_ns);
            uint64_t stream_ns = stream_next(stream, now_ns);
            next_ns = stream_ns < next_ns ? stream_ns : next_ns;
        }
    }
    return next_ns;
}

bool copier_streams_idle(const struct copier_streams *streams)
{
    list_for_each_safe (&streams->homes, node, after) {
        const struct home *home = container_of(node, struct home, node);
        for (int way = 0; way < COPIER_WAYS; way++)
            if (home->streams[way].count > 0)
                return false;
    }
    return true;
}
