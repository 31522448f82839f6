/* SPDX-License-Identifier: Apache-2.0 */
/* Where a test's tensors lie: on the host or on a device, in memory that the rank's context knows or not.
 *
 * Idea: bytes reach and leave a device by the public copies (tryst/device.h) alone, so the same tests run
 * over tests/support/fake_cuda and over a GPU.
 * Invariant: one thread at a time uses a `gpu`. */
#ifndef TRYST_TESTS_API_ROOMS_H
#define TRYST_TESTS_API_ROOMS_H

#include <tryst/device.h>
#include <tryst/pool.h>

#include "harness.h"

enum { GPU_DEVICES = 2 };

/** One rank's devices. */
struct gpu {
    tryst_ctx *ctx;
    tryst_device *devices[GPU_DEVICES];
    void *streams[GPU_DEVICES], *events[GPU_DEVICES];
    /* gpu_pools_open */
    tryst_ctx *
        stranger; /**< another context: what it allocates, the rank's own does not know */
    tryst_pool *pools[GPU_DEVICES], *strange_pools[GPU_DEVICES];
};

void gpu_open(const struct harness_rank *rank, struct gpu *gpu);
/** For rooms of the kinds that say so. */
void gpu_pools_open(struct gpu *gpu);
void gpu_close(struct gpu *gpu);
/** Copy, and wait for it. */
void gpu_copy(struct gpu *gpu, int device, void *to, const void *from, size_t bytes);

enum room_how {
    ROOM_REGION,  /**< tryst_mem_alloc */
    ROOM_POOL,    /**< a piece of a registered region; gpu_pools_open */
    ROOM_STRANGE, /**< memory that is not registered; gpu_pools_open */
};

/** A tensor of bytes: device -1 is the host. */
struct room {
    int device;
    void *data;
    size_t bytes;
    tryst_mem *mem;
    tryst_pool *pool;
    void *ready, *filling; /* room_fill_late */
};

struct room room_open(struct gpu *gpu, int device, enum room_how how, size_t bytes);
void room_close(struct gpu *gpu, struct room *room);
void room_fill(struct gpu *gpu, struct room *room, uint64_t seed);
/** The same in time: room->ready passes when the bytes are there. Device memory alone. */
void room_fill_late(struct gpu *gpu, struct room *room, uint64_t seed);
/** Offset of the first wrong byte, or SIZE_MAX. */
size_t room_mismatch(struct gpu *gpu, const struct room *room, uint64_t seed);
tryst_tensor room_tensor(const struct room *room, void *ready);

#endif
