/* SPDX-License-Identifier: Apache-2.0 */
/* A device that the test advances by hand (hand_device.h). */
#include "hand_device.h"

#include "support/unit.h"

#include <string.h>

enum { STREAMS_MAX = 32, WORKS_MAX = 4096 };

struct hand_event {
    int recorded, passed;
};

struct work {
    void *dst; /* NULL: `event` passes */
    const void *src;
    size_t bytes;
    struct hand_event *event;
};

struct hand_stream {
    struct work works[WORKS_MAX];
    int first, end;
};

struct hand hand;
static struct hand_stream *streams[STREAMS_MAX]; /* closed streams stay, empty */
static int streams_count;

/* Count down `left`, the number of failures to come; true while it was positive. */
static bool fail_now(unsigned *left)
{
    bool now = *left > 0;
    *left -= now && *left < HAND_ALWAYS;
    return now;
}

static tryst_status pinned_alloc(int32_t device, size_t bytes, void **data_p)
{
    hand.pinned_calls++;
    if (fail_now(&hand.fail_pinned) || bytes > UINT64_C(1) << 32)
        return TRYST_E_NOMEM;
    *data_p = malloc(bytes);
    assert_non_null(*data_p);
    hand.pinned++;
    hand.pinned_bytes += bytes;
    return TRYST_OK;
}

static void pinned_free(int32_t device, void *data, size_t bytes)
{
    hand.pinned--;
    hand.pinned_bytes -= bytes;
    free(data);
}

/* Pin existing memory: counted as pinned_alloc is, and failed by the same counter. */
static tryst_status pin(int32_t device, void *data, size_t bytes)
{
    hand.pinned_calls++;
    if (fail_now(&hand.fail_pinned))
        return TRYST_E_NOMEM;
    hand.pinned++;
    hand.pinned_bytes += bytes;
    return TRYST_OK;
}

static void unpin(int32_t device, void *data, size_t bytes)
{
    hand.pinned--;
    hand.pinned_bytes -= bytes;
}

static const char *error_text(void)
{
    return "the test failed this call";
}

static tryst_status stream_open(int32_t device, bool urgent, void **stream_p)
{
    if (fail_now(&hand.fail_stream))
        return TRYST_E_SYSTEM;
    assert_true(streams_count < STREAMS_MAX);
    struct hand_stream *stream = calloc(1, sizeof *stream);
    assert_non_null(stream);
    streams[streams_count++] = stream;
    hand.streams++;
    *stream_p = stream;
    return TRYST_OK;
}

static void stream_close(int32_t device, void *stream)
{
    for (int i = 0; i < streams_count; i++)
        if (streams[i] == stream)
            streams[i] = NULL;
    free(stream);
    hand.streams--;
}

static void work_add(struct hand_stream *stream, struct work work)
{
    assert_true(stream->end < WORKS_MAX);
    stream->works[stream->end++] = work;
}

static tryst_status copy_async(int32_t device, void *stream, void *dst, const void *src,
                               size_t bytes)
{
    hand.copy_calls++;
    if (fail_now(&hand.fail_copy))
        return TRYST_E_SYSTEM;
    work_add(stream, (struct work){.dst = dst, .src = src, .bytes = bytes});
    return TRYST_OK;
}

static tryst_status event_open(int32_t device, void **event_p)
{
    if (fail_now(&hand.fail_event))
        return TRYST_E_SYSTEM;
    *event_p = calloc(1, sizeof(struct hand_event));
    assert_non_null(*event_p);
    hand.events++;
    return TRYST_OK;
}

static void event_close(int32_t device, void *event)
{
    hand.events--;
    free(event);
}

static tryst_status event_record(int32_t device, void *stream, void *event)
{
    if (fail_now(&hand.fail_record))
        return TRYST_E_SYSTEM;
    ((struct hand_event *)event)->recorded++;
    work_add(stream, (struct work){.event = event});
    return TRYST_OK;
}

static tryst_status event_query(int32_t device, void *event)
{
    const struct hand_event *self = event;
    hand.query_calls++;
    if (fail_now(&hand.fail_query))
        return TRYST_E_SYSTEM;
    return self->passed == self->recorded ? TRYST_OK : TRYST_IN_PROGRESS;
}

static tryst_status locate(const void *data, int32_t *device_p)
{
    *device_p = 0;
    return data ? TRYST_OK : TRYST_E_INVALID;
}

const struct memory_ops hand_row = {.name = "hand",
                                    .kind = TRYST_MEMORY_CUDA,
                                    .struct_size = sizeof(struct memory_ops),
                                    .on_device = true,
                                    .locate = locate,
                                    .error_text = error_text,
                                    .pinned_alloc = pinned_alloc,
                                    .pinned_free = pinned_free,
                                    .pin = pin,
                                    .unpin = unpin,
                                    .stream_open = stream_open,
                                    .stream_close = stream_close,
                                    .copy_async = copy_async,
                                    .event_open = event_open,
                                    .event_close = event_close,
                                    .event_record = event_record,
                                    .event_query = event_query};

int hand_run(int index, int count)
{
    struct hand_stream *stream = index < streams_count ? streams[index] : NULL;
    int done = 0;
    for (; stream && done < count && stream->first < stream->end; done++) {
        const struct work *work = &stream->works[stream->first++];
        if (work->dst)
            memmove(work->dst, work->src, work->bytes);
        else
            work->event->passed++;
    }
    if (stream && stream->first == stream->end)
        stream->first = stream->end = 0;
    return done;
}

void hand_run_all(void)
{
    for (int i = 0; i < streams_count; i++)
        (void)hand_run(i, WORKS_MAX);
}

struct hand_event *hand_event_make(void)
{
    struct hand_event *event = calloc(1, sizeof *event);
    assert_non_null(event);
    event->recorded = 1;
    return event;
}

void hand_event_pass(struct hand_event *event)
{
    event->passed = event->recorded;
}

void hand_event_free(struct hand_event *event)
{
    free(event);
}

void hand_check(void)
{
    assert_int_equal(hand.pinned, 0);
    assert_int_equal(hand.pinned_bytes, 0);
    assert_int_equal(hand.streams, 0);
    assert_int_equal(hand.events, 0);
    hand = (struct hand){0};
    streams_count = 0;
}
