/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors on the host and on devices (rooms.h). */
#include "rooms.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

static void device_open(struct gpu *gpu, int i)
{
    if (tryst_device_open(gpu->ctx, TRYST_MEMORY_CUDA, i, &gpu->devices[i]) != TRYST_OK)
        harness_fail(__FILE__, __LINE__, "%s", tryst_last_error());
    CHECK_STATUS(tryst_stream_open(gpu->devices[i], 0, &gpu->streams[i]), TRYST_OK);
    CHECK_STATUS(tryst_event_open(gpu->devices[i], &gpu->events[i]), TRYST_OK);
}

void gpu_open(const struct harness_rank *rank, struct gpu *gpu)
{
    *gpu = (struct gpu){.ctx = rank->ctx};
    for (int i = 0; i < GPU_DEVICES; i++)
        device_open(gpu, i);
}

static tryst_pool *pool_open(tryst_ctx *ctx, const tryst_device *device)
{
    tryst_pool_params params = {
        .struct_size = sizeof params, .kind = TRYST_POOL_DEVICE, .device = device};
    tryst_pool *pool;
    if (tryst_pool_open(ctx, &params, &pool) != TRYST_OK)
        harness_fail(__FILE__, __LINE__, "%s", tryst_last_error());
    return pool;
}

void gpu_pools_open(struct gpu *gpu)
{
    CHECK_STATUS(tryst_open(NULL, &gpu->stranger), TRYST_OK);
    for (int i = 0; i < GPU_DEVICES; i++) {
        gpu->pools[i] = pool_open(gpu->ctx, gpu->devices[i]);
        gpu->strange_pools[i] = pool_open(gpu->stranger, gpu->devices[i]);
    }
}

void gpu_close(struct gpu *gpu)
{
    for (int i = 0; i < GPU_DEVICES; i++) {
        CHECK_EQ(tryst_pool_close(gpu->pools[i]), 0);
        CHECK_EQ(tryst_pool_close(gpu->strange_pools[i]), 0);
        tryst_event_close(gpu->devices[i], gpu->events[i]);
        tryst_stream_close(gpu->devices[i], gpu->streams[i]);
        for (int s = 0; s < GPU_AWAITING; s++)
            tryst_stream_close(gpu->devices[i], gpu->awaiting[i][s]);
        tryst_device_close(gpu->devices[i]);
    }
    tryst_close(gpu->stranger);
}

void gpu_event_wait(struct gpu *gpu, int device, void *event)
{
    tryst_status status;
    while ((status = tryst_event_test(gpu->devices[device], event)) == TRYST_IN_PROGRESS)
        (void)sched_yield();
    CHECK_STATUS(status, TRYST_OK);
}

void gpu_copy_queue(struct gpu *gpu, int device, void *to, const void *from, size_t bytes,
                    void *event)
{
    const tryst_device *handle = gpu->devices[device];
    void *stream = gpu->streams[device];
    CHECK_STATUS(tryst_copy_async(handle, stream, to, from, bytes), TRYST_OK);
    CHECK_STATUS(tryst_event_record(handle, stream, event), TRYST_OK);
}

void gpu_copy(struct gpu *gpu, int device, void *to, const void *from, size_t bytes)
{
    gpu_copy_queue(gpu, device, to, from, bytes, gpu->events[device]);
    gpu_event_wait(gpu, device, gpu->events[device]);
}

struct room room_open(struct gpu *gpu, int device, enum room_how how, size_t bytes)
{
    struct room room = {.device = device, .bytes = bytes};
    if (device < 0) {
        room.data = malloc(bytes + 1);
    } else if (how == ROOM_REGION) {
        CHECK_STATUS(tryst_mem_alloc(gpu->ctx, bytes + 1, TRYST_MEMORY_CUDA, device,
                                     &room.data, &room.mem),
                     TRYST_OK);
    } else {
        room.pool = how == ROOM_POOL ? gpu->pools[device] : gpu->strange_pools[device];
        CHECK_STATUS(tryst_pool_alloc(room.pool, bytes + 1, &room.data), TRYST_OK);
    }
    CHECK(room.data);
    return room;
}

void room_close(struct gpu *gpu, struct room *room)
{
    if (room->ready) {
        gpu_event_wait(gpu, room->device, room->ready);
        tryst_event_close(gpu->devices[room->device], room->ready);
        free(room->filling);
    }
    if (room->device < 0)
        free(room->data);
    else if (room->pool)
        CHECK_STATUS(tryst_pool_free(room->pool, room->data), TRYST_OK);
    tryst_mem_release(room->mem);
}

void room_fill(struct gpu *gpu, struct room *room, uint64_t seed)
{
    if (room->device < 0) {
        harness_fill(room->data, room->bytes, seed);
        return;
    }
    char *bytes = malloc(room->bytes + 1);
    CHECK(bytes);
    harness_fill(bytes, room->bytes, seed);
    if (room->bytes)
        gpu_copy(gpu, room->device, room->data, bytes, room->bytes);
    free(bytes);
}

void room_fill_late(struct gpu *gpu, struct room *room, uint64_t seed)
{
    room->filling = malloc(room->bytes + 1);
    CHECK(room->filling);
    harness_fill(room->filling, room->bytes, seed);
    CHECK_STATUS(tryst_event_open(gpu->devices[room->device], &room->ready), TRYST_OK);
    gpu_copy_queue(gpu, room->device, room->data, room->filling, room->bytes,
                   room->ready);
}

size_t room_mismatch(struct gpu *gpu, const struct room *room, uint64_t seed)
{
    if (room->device < 0)
        return harness_mismatch(room->data, room->bytes, seed);
    char *bytes = calloc(1, room->bytes + 1);
    CHECK(bytes);
    if (room->bytes)
        gpu_copy(gpu, room->device, bytes, room->data, room->bytes);
    size_t at = harness_mismatch(bytes, room->bytes, seed);
    free(bytes);
    return at;
}

tryst_tensor room_tensor(const struct room *room, void *ready)
{
    return (tryst_tensor){.struct_size = sizeof(tryst_tensor),
                          .data = room->data,
                          .count = room->bytes,
                          .dtype = TRYST_DTYPE_U8,
                          .memory =
                              room->device < 0 ? TRYST_MEMORY_HOST : TRYST_MEMORY_CUDA,
                          .device = room->device < 0 ? 0 : room->device,
                          .ready_event = ready};
}
