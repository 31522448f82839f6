/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for a test's tensors: on the host or on a device, allocated by the rank's
 * context or unknown to that context.
 *
 * Idea: bytes reach and leave a device only by the public copies (tryst/device.h), so the
 * same tests run over tests/support/fake_cuda and over a GPU.
 *
 * Invariant: one thread at a time uses a `gpu`. */
#ifndef TRYST_TESTS_API_ROOMS_H
#define TRYST_TESTS_API_ROOMS_H

#include <tryst/device.h>
#include <tryst/pool.h>

#include "harness.h"

enum { GPU_DEVICES = 2, GPU_AWAITING = 3 };

/** One rank's devices. */
struct gpu {
    tryst_ctx *ctx;
    tryst_device *devices[GPU_DEVICES];
    void *streams[GPU_DEVICES], *events[GPU_DEVICES];
    /** streams that wait for operations (twin_await), opened when they are needed */
    void *awaiting[GPU_DEVICES][GPU_AWAITING];
    /* gpu_pools_open opens the members below. */
    /** Another context, whose memory the rank's own context has not allocated. */
    tryst_ctx *stranger;
    tryst_pool *pools[GPU_DEVICES], *strange_pools[GPU_DEVICES];
};

void gpu_open(const struct harness_rank *rank, struct gpu *gpu);
/** Open the pools, which ROOM_POOL and ROOM_STRANGE need. */
void gpu_pools_open(struct gpu *gpu);
void gpu_close(struct gpu *gpu);
/** Queue a copy of `bytes`, and record `event` behind the copy. */
void gpu_copy_queue(struct gpu *gpu, int device, void *to, const void *from, size_t bytes,
                    void *event);
void gpu_event_wait(struct gpu *gpu, int device, void *event);
/** Copy `bytes`, and wait for the copy. */
void gpu_copy(struct gpu *gpu, int device, void *to, const void *from, size_t bytes);

enum room_how {
    ROOM_REGION,  /**< tryst_mem_alloc */
    ROOM_POOL,    /**< a piece of a registered region; needs gpu_pools_open */
    ROOM_STRANGE, /**< memory that is not registered; needs gpu_pools_open */
};

/** A tensor of bytes. Device -1 is the host. */
struct room {
    int device;
    void *data;
    size_t bytes;
    tryst_mem *mem;
    tryst_pool *pool;
    void *ready, *filling; /**< the events of room_fill_late, or NULL */
};

struct room room_open(struct gpu *gpu, int device, enum room_how how, size_t bytes);
void room_close(struct gpu *gpu, struct room *room);
void room_fill(struct gpu *gpu, struct room *room, uint64_t seed);
/** Fill device memory behind an event: room->ready passes when the bytes are there. */
void room_fill_late(struct gpu *gpu, struct room *room, uint64_t seed);
/** Return the offset of the first wrong byte, or SIZE_MAX. */
size_t room_mismatch(struct gpu *gpu, const struct room *room, uint64_t seed);
tryst_tensor room_tensor(const struct room *room, void *ready);

#endif
