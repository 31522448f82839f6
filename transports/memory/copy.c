/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies from and to devices, polled.
 *
 * Idea: a stream does its copies in order, so only the oldest event of each stream is
 * polled.
 * Invariant: when `done` is called, the device does not touch the bytes any more. So an
 * event that cannot be recorded or polled is tried again. After FAILS_MAX failures the
 * device counts as lost, and so does the work that is queued on it.
 */
#include "transports/memory/copy.h"

#include <assert.h>

#include "core/memory/alloc.h"

/* Consecutive failures of one copy's event after which the device counts as lost. */
enum { FAILS_MAX = 16 };

struct copy_event {
    struct list_node node; /* in home->events while free */
    void *event;
};

struct copy_stream {
    void *stream;
    bool open;
    struct list running; /* in the stream's order */
};

/* The streams and free events of one device. */
struct copy_home {
    struct list_node node;
    const struct memory_ops *memory;
    int32_t device;
    struct copy_stream streams[COPY_WAYS];
    struct list events;
};

void copies_init(struct copies *copies)
{
    list_init(&copies->homes);
    list_init(&copies->waiting);
    list_init(&copies->ended);
    copies->count = 0;
}

static void home_close(struct copy_home *home)
{
    struct list_node *node;
    for (int way = 0; way < COPY_WAYS; way++)
        if (home->streams[way].open)
            home->memory->stream_close(home->device, home->streams[way].stream);
    while ((node = list_pop_front(&home->events)) != NULL) {
        struct copy_event *event = container_of(node, struct copy_event, node);
        home->memory->event_close(home->device, event->event);
        mem_free(event);
    }
    mem_free(home);
}

void copies_end(struct copies *copies)
{
    struct list_node *node;
    assert(copies->count == 0);
    while ((node = list_pop_front(&copies->homes)) != NULL)
        home_close(container_of(node, struct copy_home, node));
}

/* ---- devices ---- */

static struct copy_home *home_get(struct copies *copies, const struct memory_ops *memory,
                                  int32_t device)
{
    list_for_each_safe (&copies->homes, node, after) {
        struct copy_home *home = container_of(node, struct copy_home, node);
        if (home->memory == memory && home->device == device)
            return home;
    }
    struct copy_home *home = mem_zalloc(sizeof *home);
    if (!home)
        return NULL;
    home->memory = memory;
    home->device = device;
    for (int way = 0; way < COPY_WAYS; way++)
        list_init(&home->streams[way].running);
    list_init(&home->events);
    list_push_back(&copies->homes, &home->node);
    return home;
}

static tryst_status stream_get(struct copy_home *home, enum copy_way way)
{
    struct copy_stream *stream = &home->streams[way];
    if (stream->open)
        return TRYST_OK;
    tryst_status status = home->memory->stream_open(home->device, true, &stream->stream);
    stream->open = status == TRYST_OK;
    return status;
}

void copies_prepare(struct copies *copies, const struct memory_ops *memory,
                    int32_t device)
{
    struct copy_home *home = home_get(copies, memory, device);
    for (int way = 0; home && way < COPY_WAYS; way++)
        (void)stream_get(home, way);
}

static tryst_status event_get(struct copy_home *home, struct copy_event **event_p)
{
    struct list_node *node = list_pop_front(&home->events);
    if (node) {
        *event_p = container_of(node, struct copy_event, node);
        return TRYST_OK;
    }
    struct copy_event *event = mem_zalloc(sizeof *event);
    if (!event)
        return TRYST_E_NOMEM;
    tryst_status status = home->memory->event_open(home->device, &event->event);
    if (status != TRYST_OK) {
        mem_free(event);
        return status;
    }
    *event_p = event;
    return TRYST_OK;
}

/* ---- one copy ---- */

static void copy_end(struct copies *copies, struct copy *copy, tryst_status status)
{
    list_remove(&copy->node);
    copy->status = status;
    list_push_back(&copies->ended, &copy->node);
}

static void record_try(struct copy_home *home, struct copy *copy)
{
    void *stream = home->streams[copy->way].stream;
    copy->recorded =
        home->memory->event_record(home->device, stream, copy->event->event) == TRYST_OK;
}

static tryst_status copy_queue(struct copies *copies, struct copy *copy)
{
    struct copy_home *home = home_get(copies, copy->memory, copy->device);
    tryst_status status =
        home ? stream_get(home, (enum copy_way)copy->way) : TRYST_E_NOMEM;
    if (status == TRYST_OK)
        status = event_get(home, &copy->event);
    if (status != TRYST_OK)
        return status;
    struct copy_stream *stream = &home->streams[copy->way];
    status = home->memory->copy_async(home->device, stream->stream, copy->dst, copy->src,
                                      copy->bytes);
    if (status != TRYST_OK) {
        list_push_front(&home->events, &copy->event->node);
        return status;
    }
    copy->queued = true;
    record_try(home, copy);
    copy->recorded_at_once = copy->recorded;
    list_push_back(&stream->running, &copy->node);
    return TRYST_OK;
}

static void copy_begin(struct copies *copies, struct copy *copy)
{
    list_remove(&copy->node);
    copy->begun = true;
    tryst_status status = copy->bytes ? copy_queue(copies, copy) : TRYST_OK;
    if (status != TRYST_OK || !copy->bytes)
        copy_end(copies, copy, status);
}

void copies_start(struct copies *copies, struct copy *copy)
{
    list_node_init(&copy->node);
    copy->begun = copy->queued = copy->recorded = copy->recorded_at_once = false;
    copy->fails = 0;
    copies->count++;
    if (copy->ready)
        list_push_back(&copies->waiting, &copy->node);
    else
        copy_begin(copies, copy);
}

bool copies_drop(struct copies *copies, struct copy *copy)
{
    if (copy->begun)
        return false;
    list_remove(&copy->node);
    copies->count--;
    return true;
}

bool copy_has_ended(const struct copy *copy)
{
    /* All fields that are read here were set before copies_start returned. If recording
     * the event failed then, a later success is not visible here, and the copy counts as
     * running. */
    if (!copy->queued)
        return true;
    return copy->recorded_at_once &&
           copy->memory->event_query(copy->device, copy->event->event) == TRYST_OK;
}

/* ---- polling ---- */

/* Count consecutive failures. Returns TRYST_OK, TRYST_IN_PROGRESS (also for a failure),
 * or the status of failure FAILS_MAX: the event will never pass. */
static tryst_status fails_count(struct copy *copy, tryst_status status)
{
    if (status == TRYST_OK || status == TRYST_IN_PROGRESS) {
        copy->fails = 0;
        return status;
    }
    return ++copy->fails < FAILS_MAX ? TRYST_IN_PROGRESS : status;
}

static void waiting_poll(struct copies *copies)
{
    list_for_each_safe (&copies->waiting, node, after) {
        struct copy *copy = container_of(node, struct copy, node);
        tryst_status status =
            fails_count(copy, copy->memory->event_query(copy->device, copy->ready));
        if (status == TRYST_OK) {
            copy_begin(copies, copy);
        } else if (status != TRYST_IN_PROGRESS) {
            copy->begun = true; /* the copy has ended: too late to drop */
            copy_end(copies, copy, status);
        }
    }
}

static tryst_status copy_poll(struct copy_home *home, struct copy *copy)
{
    if (!copy->recorded)
        record_try(home, copy);
    tryst_status status =
        copy->recorded ? home->memory->event_query(home->device, copy->event->event)
                       : TRYST_E_SYSTEM;
    return fails_count(copy, status);
}

static void stream_poll(struct copies *copies, struct copy_home *home,
                        struct copy_stream *stream)
{
    struct list_node *node;
    while ((node = list_first(&stream->running)) != NULL) {
        struct copy *copy = container_of(node, struct copy, node);
        tryst_status status = copy_poll(home, copy);
        if (status == TRYST_IN_PROGRESS)
            return;
        list_push_front(&home->events, &copy->event->node);
        copy_end(copies, copy, status);
    }
}

int copies_poll(struct copies *copies)
{
    struct list ended;
    struct list_node *node;
    int count = 0;
    if (copies->count == 0)
        return 0;
    waiting_poll(copies);
    list_for_each_safe (&copies->homes, home_node, after) {
        struct copy_home *home = container_of(home_node, struct copy_home, node);
        for (int way = 0; way < COPY_WAYS; way++)
            stream_poll(copies, home, &home->streams[way]);
    }
    list_init(&ended);
    /* copies that `done` starts wait for the next call */
    list_append(&ended, &copies->ended);
    while ((node = list_pop_front(&ended)) != NULL) {
        struct copy *copy = container_of(node, struct copy, node);
        copies->count--;
        copy->done(copy, copy->status);
        count++;
    }
    return count;
}
