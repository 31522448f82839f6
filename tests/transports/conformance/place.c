/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes on the host or on a device (place.h). */
#include "place.h"

#include <sched.h>
#include <stdlib.h>

#include "harness.h"

void place_devices_open(struct conf_ctx *ctx)
{
    struct place_devices *devices = &ctx->devices;
    char text[TRANSPORT_TEXT_MAX];
    int32_t count = 0;
    if (!ctx->subject->on_device)
        return;
    if (memory_ops_load(&ctx->host, TRYST_MEMORY_CUDA, &devices->memory, text) !=
        TRYST_OK)
        CONF_FAIL(ctx, "no device: %s", text);
    CONF_EQUAL(ctx, devices->memory->devices(&count, text), TRYST_OK);
    devices->count = count < PLACE_DEVICES_MAX ? count : PLACE_DEVICES_MAX;
    for (int32_t i = 0; i < devices->count; i++) {
        CONF_EQUAL(ctx, devices->memory->stream_open(i, false, &devices->streams[i]),
                   TRYST_OK);
        CONF_EQUAL(ctx, devices->memory->event_open(i, &devices->events[i]), TRYST_OK);
    }
}

void place_devices_close(struct conf_ctx *ctx)
{
    struct place_devices *devices = &ctx->devices;
    for (int32_t i = 0; i < devices->count; i++) {
        devices->memory->event_close(i, devices->events[i]);
        devices->memory->stream_close(i, devices->streams[i]);
    }
    *devices = (struct place_devices){0};
}

static void region_open(struct place *place)
{
    tryst_memory_kind kind = place->memory ? place->memory->kind : TRYST_MEMORY_HOST;
    CONF_EQUAL(
        place->ctx,
        memory_alloc(place->ctx->regions, place->bytes, kind, place->device, &place->mem),
        TRYST_OK);
    place->data = place->mem->data;
}

static void plain_open(struct place *place)
{
    void *data = NULL;
    int fd = -1;
    if (place->memory)
        CONF_EQUAL(place->ctx,
                   place->memory->alloc(place->device, place->bytes, &data, &fd),
                   TRYST_OK);
    else
        data = malloc(place->bytes);
    CONF_CHECK(place->ctx, data != NULL && fd < 0);
    place->data = data;
}

void place_open(struct conf_ctx *ctx, bool on_device, uint64_t device, size_t bytes,
                struct place *place)
{
    *place = (struct place){.ctx = ctx, .bytes = bytes};
    if (on_device) {
        place->memory = ctx->devices.memory;
        place->device = (int32_t)(device % (uint64_t)ctx->devices.count);
    }
    if (ctx->subject->regions)
        region_open(place);
    else
        plain_open(place);
    place->view = place->memory ? malloc(bytes) : place->data;
    CONF_CHECK(ctx, place->view != NULL);
}

void place_close(struct place *place)
{
    if (place->memory)
        free(place->view);
    if (place->mem)
        memory_release(place->mem);
    else if (place->memory)
        place->memory->free(place->device, place->data, place->bytes, -1);
    else
        free(place->data);
    *place = (struct place){.ctx = place->ctx};
}

/* Copy and wait: the test's own copies are not under test. */
static void copy(const struct place *place, void *to, const void *from)
{
    struct conf_ctx *ctx = place->ctx;
    const struct memory_ops *memory = place->memory;
    void *stream = ctx->devices.streams[place->device];
    void *event = ctx->devices.events[place->device];
    tryst_status status;
    CONF_EQUAL(ctx, memory->copy_async(place->device, stream, to, from, place->bytes),
               TRYST_OK);
    CONF_EQUAL(ctx, memory->event_record(place->device, stream, event), TRYST_OK);
    while ((status = memory->event_query(place->device, event)) == TRYST_IN_PROGRESS)
        (void)sched_yield();
    CONF_EQUAL(ctx, status, TRYST_OK);
}

void place_put(struct place *place)
{
    if (place->memory)
        copy(place, place->data, place->view);
}

void place_get(struct place *place)
{
    if (place->memory)
        copy(place, place->view, place->data);
}
