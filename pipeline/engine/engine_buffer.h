/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers of an engine: blocks of a few sizes, each counted by its users and reused at
 * once.
 *
 * Blocks are cut from chunks that double while they are small, so that an engine has few regions;
 * large ones come one by one, so that none is made that nobody needs, and a chunk that does not
 * fit any more shrinks to what does. In the steady state none is made. Blocks that travel, and all blocks of a device, are cut from
 * tryst_mem_alloc's memory, which peers of one machine can map; the others (saved
 * activations on the host) from plain memory.
 *
 * A device's block can be free while the device still works on it: `after` is the event
 * behind which it is its next user's (engine_device.h). So there the one that has been free for
 * longest is taken next; on the host the last one, which caches still hold. */
#ifndef TRYST_PIPELINE_ENGINE_BUFFER_H
#define TRYST_PIPELINE_ENGINE_BUFFER_H

#include <stdbool.h>
#include <tryst/device.h>
#include <tryst/tryst.h>

typedef struct buffer {
    void *data;
    tryst_mem *mem; /* NULL in plain memory */
    size_t bytes;   /* the class: what was asked for, rounded up */
    int uses;       /* 0: free */
    void *after;    /* device: event that its next user waits for; NULL: none */
    struct buffer_class *owner;
    struct buffer *next_free;
} buffer;

typedef struct buffer_chunk {
    struct buffer_chunk *next;
    void *data;
    tryst_mem *mem;
    buffer *buffers;
    size_t count;
} buffer_chunk;

typedef struct buffer_class {
    struct buffer_class *next;
    struct buffer_pool *pool;
    size_t bytes;
    bool travels;
    size_t made_count;
    buffer *free,
        *last_free; /* the next to be taken, and the last; last_free only where there is one */
    buffer_chunk *chunks;
} buffer_class;

typedef struct buffer_pool {
    tryst_ctx *ctx;
    tryst_memory_kind memory; /* of all blocks; host unless a device's stages run here */
    int32_t device;
    tryst_device *handle; /* of that device; NULL on the host */
    buffer_class *classes;
    uint64_t bytes_used;
    uint64_t bytes_peak;
    uint64_t allocations_count;
    uint64_t bytes_made; /* of all chunks */
    uint64_t bytes_max;  /* that they may come to; 0: no limit */
} buffer_pool;

/* A buffer with one use, 64-byte aligned. Returns TRYST_OK or an allocation's error: TRYST_E_NOMEM also
 * where it would pass the limit. */
tryst_status buffer_get(buffer_pool *pool, size_t bytes, bool travels, buffer **buffer_p);
/* The same, and where the device still works on every free one, rather a new one. */
tryst_status buffer_get_idle(buffer_pool *pool, size_t bytes, buffer **buffer_p);
/* One user less; the last one's drop frees it. NULL is allowed. */
void buffer_drop(buffer *self);
/* Every event that a buffer names has passed: forget them. */
void buffer_pool_settle(buffer_pool *pool);
/* Free all memory. With `leave`, memory that travels is left to the library for ever:
 * some operation may still touch it. */
void buffer_pool_close(buffer_pool *pool, bool leave);

#endif
