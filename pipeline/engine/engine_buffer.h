/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers of an engine: blocks of a few sizes, each counted by its users and reused at
 * once.
 *
 * Blocks are cut from chunks that double while they are small, so that an engine has few
 * regions. Large blocks are allocated one by one, so that none is made in vain; a chunk
 * that does not fit any more shrinks to what fits. In the steady state no chunk is added.
 * Blocks for transfers, and all blocks of a device, are cut from memory of
 * tryst_mem_alloc, which peers on the same machine can map; the others (saved activations
 * on the host) from plain memory.
 *
 * A device's block can be free while the device still works on it: its next user has to
 * wait for the event `after` (engine_device.h). So on a device the block that has been
 * free for longest is taken next; on the host the one freed last, which caches still
 * hold. */
#ifndef TRYST_PIPELINE_ENGINE_ENGINE_BUFFER_H
#define TRYST_PIPELINE_ENGINE_ENGINE_BUFFER_H

#include <stdbool.h>
#include <tryst/device.h>
#include <tryst/tryst.h>

struct buffer {
    void *data;
    tryst_mem *mem; /**< NULL in plain memory */
    size_t bytes;   /**< size of the class: the requested size, rounded up */
    int uses;       /**< 0: free */
    void *after;    /**< device: event that the next user waits for; NULL: none */
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
    bool travels;
    size_t made_count;
    /** the block to be taken next, and the last one; last_free is set only if there is
     *  one */
    struct buffer *free, *last_free;
    struct buffer_chunk *chunks;
};

struct buffer_pool {
    tryst_ctx *ctx;
    /** Memory of all blocks; host unless stages compute on a device here. */
    tryst_memory_kind memory;
    int32_t device;
    tryst_device *handle; /**< handle of that device; NULL on the host */
    struct buffer_class *classes;
    uint64_t bytes_used;
    uint64_t bytes_peak;
    uint64_t allocations_count;
    uint64_t bytes_made; /**< bytes of all chunks */
    uint64_t bytes_max;  /**< limit of bytes_made; 0: none */
};

/** Get a buffer with one use, 64-byte aligned. Returns TRYST_OK or an allocation's error:
 *  TRYST_E_NOMEM also if the limit would be passed. */
tryst_status buffer_get(struct buffer_pool *pool, size_t bytes, bool travels,
                        struct buffer **buffer_p);
/** Get a buffer as buffer_get does; but allocate a new one if the device still works on
 *  every free one. */
tryst_status buffer_get_idle(struct buffer_pool *pool, size_t bytes,
                             struct buffer **buffer_p);
/** Drop one use; the last drop frees the buffer. NULL is allowed. */
void buffer_drop(struct buffer *self);
/** Forget the events of all buffers, which have passed. */
void buffer_pool_settle(struct buffer_pool *pool);
/** Free all memory. With `leave`, memory for transfers is never freed: some operation may
 *  still touch it. */
void buffer_pool_close(struct buffer_pool *pool, bool leave);

#endif
