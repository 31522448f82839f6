/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers of an engine: blocks of a few sizes, each with a count of its users, and reused
 * as soon as the last user drops it.
 *
 * Blocks are cut from chunks that double while they are small, so that an engine has few
 * memory regions. Large blocks are allocated one by one, so that none stays unused. A
 * chunk shrinks to fit the pool's limit and, on a device, the free memory. In the steady
 * state no chunk is added. Blocks for transfers, and all blocks of a device, are cut from
 * memory of tryst_mem_alloc, which peers on the same machine can map; all other blocks on
 * the host (such as saved activations) from plain memory.
 *
 * A device's block can be free while the device still works on it: the block's next user
 * has to wait for the event `after` (engine_device.h). So on a device the block that has
 * been free for longest is taken next; on the host the block freed last, which caches
 * still hold. */
#ifndef TRYST_PIPELINE_ENGINE_ENGINE_BUFFER_H
#define TRYST_PIPELINE_ENGINE_ENGINE_BUFFER_H

#include <stdbool.h>
#include <tryst/device.h>
#include <tryst/tryst.h>

struct buffer {
    void *data;
    tryst_mem *mem;    /**< NULL: plain memory */
    const void *begin; /**< of `mem` */
    size_t bytes;      /**< size of the class: the requested size, rounded up */
    int uses;          /**< 0: free */
    /** On a device: event that the next user has to wait for; NULL: none. */
    void *after;
    struct buffer_class *owner;
    struct buffer *next_free;
};

struct buffer_chunk {
    struct buffer_chunk *next;
    void *data;
    tryst_mem *mem;
    struct buffer *buffers;
    size_t count;
};

struct buffer_class {
    struct buffer_class *next;
    struct buffer_pool *pool;
    size_t bytes;
    bool travels;      /**< the blocks are for transfers */
    size_t made_count; /**< blocks of all chunks */
    /** First and last free block. The first is taken next; NULL: no block is free, and
     *  last_free is not valid. */
    struct buffer *free, *last_free;
    struct buffer_chunk *chunks;
};

struct buffer_pool {
    tryst_ctx *ctx;
    /** Memory of all blocks: the host's, unless this rank's stages compute on a
     *  device. */
    tryst_memory_kind memory;
    int32_t device;
    tryst_device *handle; /**< the device; NULL on the host */
    struct buffer_class *classes;
    uint64_t bytes_used;        /**< bytes of all blocks in use */
    uint64_t bytes_peak;        /**< largest bytes_used so far */
    uint64_t allocations_count; /**< chunks allocated so far */
    uint64_t bytes_made;        /**< bytes of all chunks */
    uint64_t bytes_max;         /**< limit of bytes_made; 0: none */
};

/** Get a buffer with one use, 64-byte aligned; `travels`: for a transfer. Returns
 *  TRYST_OK, or the error of an allocation: TRYST_E_NOMEM also if bytes_max leaves no
 *  room. */
tryst_status buffer_get(struct buffer_pool *pool, size_t bytes, bool travels,
                        struct buffer **buffer_p);
/** Get a buffer as buffer_get does, but not for transfers. If the device still works on
 *  the block that has been free for longest, first try to allocate a chunk; if that
 *  fails, return the busy block. */
tryst_status buffer_get_idle(struct buffer_pool *pool, size_t bytes,
                             struct buffer **buffer_p);
/** Drop one use; dropping the last makes the buffer free for reuse. NULL is allowed. */
void buffer_drop(struct buffer *self);
/** Clear `after` of every buffer where that event has passed. */
void buffer_pool_settle(struct buffer_pool *pool);
/** Free all memory. With `leave`, free plain memory only: an operation or the device may
 *  still touch the rest, which is never freed. */
void buffer_pool_close(struct buffer_pool *pool, bool leave);

#endif
