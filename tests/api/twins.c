/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory with a twin on a device (twins.h). */
#include "twins.h"

#include <stdlib.h>
#include <string.h>

enum { WRONG_BYTE = 0x3B, WRONG_COPIES = 3 };

/* ---- the rank's devices ------------------------------------------------------------ */

static uint64_t device_share(void)
{
    return harness_setting("TRYST_TEST_DEVICE", 0);
}

void devices_open(struct harness_rank *rank)
{
    rank->gpu = calloc(1, sizeof *rank->gpu);
    CHECK(rank->gpu);
    gpu_open(rank, rank->gpu);
}

void devices_open_all(struct harness_rank *rank)
{
    devices_open(rank);
    gpu_pools_open(rank->gpu);
}

void twins_open(struct harness_rank *rank)
{
    if (device_share())
        devices_open_all(rank);
}

void twins_close(struct harness_rank *rank)
{
    if (rank->gpu)
        gpu_close(rank->gpu);
    free(rank->gpu);
    rank->gpu = NULL;
}

int devices_run(int size, void (*main)(struct harness_rank *rank),
                void (*opened)(struct harness_rank *rank), int killed)
{
    size_t bytes = 4 * sizeof(_Atomic(uint32_t));
    _Atomic(uint32_t) *counters = harness_share(bytes);
    struct harness_params params = {.size = size,
                                    .main = main,
                                    .opened = opened,
                                    .closing = twins_close,
                                    .arg = counters,
                                    .timeout_s = 60,
                                    .killed = killed};
    int failed = harness_run(&params);
    harness_unshare(counters, bytes);
    return failed;
}

/* ---- one twin ---------------------------------------------------------------------- */

static uint64_t below(uint64_t *random, uint64_t n)
{
    return (harness_random(random) >> 8) % n;
}

void twin_open(struct twin *twin, const struct harness_rank *rank, void *host,
               size_t bytes, uint64_t *random)
{
    *twin = (struct twin){.host = host, .bytes = bytes};
    if (!rank->gpu || !device_share())
        return;
    bool on_device = below(random, 100) < device_share();
    uint64_t how = below(random, 8), device = below(random, GPU_DEVICES);
    bool late = below(random, on_device ? 2 : 4) == 0;
    twin_place(twin, rank, host, bytes, on_device ? (int)device : -1,
               how == 0  ? ROOM_REGION
               : how < 3 ? ROOM_STRANGE
                         : ROOM_POOL,
               late);
    uint64_t share = harness_setting("TRYST_TEST_AWAIT", 0);
    if (share && below(random, 100) < share)
        twin->awaiting = (int)below(random, GPU_AWAITING);
}

void twin_place(struct twin *twin, const struct harness_rank *rank, void *host,
                size_t bytes, int device, enum room_how how, bool late)
{
    *twin = (struct twin){
        .host = host, .bytes = bytes, .used = bytes, .late = late, .awaiting = -1};
    if (device < 0 && !late)
        return;
    CHECK(rank->gpu);
    twin->gpu = rank->gpu;
    twin->device = device < 0 ? 0 : device;
    if (device >= 0)
        twin->room = room_open(rank->gpu, device, how, bytes);
    if (late) {
        twin->staged = malloc(2 * bytes + 1);
        CHECK(twin->staged);
    }
    CHECK_STATUS(tryst_event_open(rank->gpu->devices[twin->device], &twin->event),
                 TRYST_OK);
}

/* Wait for the work that the twin has queued. */
static void twin_settle(const struct twin *twin)
{
    gpu_event_wait(twin->gpu, twin->device, twin->event);
}

void twin_close(struct twin *twin)
{
    if (twin->gpu) {
        twin_settle(twin);
        tryst_event_close(twin->gpu->devices[twin->device], twin->event);
        if (twin->room.data)
            room_close(twin->gpu, &twin->room);
        free(twin->staged);
    }
    *twin = (struct twin){0};
}

/* ---- bytes ------------------------------------------------------------------------- */

static void copy_queue(const struct twin *twin, void *to, const void *from, size_t bytes)
{
    if (bytes)
        gpu_copy_queue(twin->gpu, twin->device, to, from, bytes, twin->event);
}

static void begin_late(struct twin *twin, size_t bytes)
{
    uint8_t *to = twin->room.data ? twin->room.data : twin->host;
    uint8_t *right = twin->staged + twin->bytes;
    memset(twin->staged, WRONG_BYTE, bytes);
    memcpy(right, twin->host, bytes);
    memset(twin->host, WRONG_BYTE, bytes);
    for (int i = 0; i < WRONG_COPIES; i++)
        copy_queue(twin, to, twin->staged, bytes);
    copy_queue(twin, to, right, bytes);
}

void twin_begin(struct twin *twin, size_t bytes)
{
    if (!twin->gpu)
        return;
    CHECK(bytes <= twin->bytes);
    twin->used = bytes;
    twin_settle(twin);
    if (twin->late) {
        begin_late(twin, bytes);
    } else {
        copy_queue(twin, twin->room.data, twin->host, bytes);
        twin_settle(twin);
    }
}

void twin_push(struct twin *twin)
{
    if (!twin->gpu)
        return;
    twin_settle(twin);
    if (twin->room.data)
        copy_queue(twin, twin->room.data, twin->host, twin->used);
    twin_settle(twin);
}

void twin_pull(struct twin *twin)
{
    if (!twin->gpu)
        return;
    twin_settle(twin);
    if (twin->room.data)
        copy_queue(twin, twin->host, twin->room.data, twin->used);
    twin_settle(twin);
}

void twin_tensor(const struct twin *twin, bool names_mem, tryst_tensor *tensor)
{
    if (!twin->gpu)
        return;
    tensor->device = twin->device;
    tensor->ready_event = twin->late ? twin->event : NULL;
    if (!twin->room.data)
        return;
    tensor->memory = TRYST_MEMORY_CUDA;
    tensor->mem = names_mem ? twin->room.mem : NULL;
    if (tensor->data)
        tensor->data =
            (uint8_t *)twin->room.data + ((uint8_t *)tensor->data - twin->host);
}

void twin_await(const struct twin *twin, tryst_op *op)
{
    struct gpu *gpu = twin->gpu;
    if (!gpu || twin->awaiting < 0)
        return;
    void **stream_p = &gpu->awaiting[twin->device][twin->awaiting];
    if (!*stream_p)
        CHECK_STATUS(tryst_stream_open(gpu->devices[twin->device], false, stream_p),
                     TRYST_OK);
    CHECK_STATUS(tryst_op_stream_wait(op, twin->device, *stream_p), TRYST_OK);
}

const char *twin_name(const struct twin *twin)
{
    if (!twin->gpu)
        return "host";
    if (!twin->room.data)
        return "host (late)";
    return twin->late ? "device (late)" : "device";
}
