/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers of an engine: blocks of a few sizes, each counted by its users and reused at
 * once.
 *
 * Blocks are cut from chunks that double, so that an engine has few regions, and in the
 * steady state none is made. Blocks that travel, and all blocks of a device, are cut from
 * tryst_mem_alloc's memory, which peers of one machine can map; the others (saved
 * activations on the host) from plain memory.
 *
 * A device's block can be free while the device still works on it: `after` is the event
 * behind which it is its next user's (engine_device.h). */
#ifndef TRYST_PIPELINE_ENGINE_BUFFER_H
#define TRYST_PIPELINE_ENGINE_BUFFER_H

#include <stdbool.h>
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
    buffer *free;
    buffer_chunk *chunks;
} buffer_class;

typedef struct buffer_pool {
    tryst_ctx *ctx;
    tryst_memory_kind memory; /* of all blocks; host unless a device's stages run here */
    int32_t device;
    buffer_class *classes;
    uint64_t bytes_used;
    uint64_t bytes_peak;
    uint64_t allocations_count;
} buffer_pool;

/* A buffer with one use, 64-byte aligned. Returns TRYST_OK or an allocation's error. */
tryst_status buffer_get(buffer_pool *pool, size_t bytes, bool travels, buffer **buffer_p);
/* One more user. */
void buffer_hold(buffer *self);
/* One user less; the last one's drop frees it. NULL is allowed. */
void buffer_drop(buffer *self);
/* Every event that a buffer names has passed: forget them. */
void buffer_pool_settle(buffer_pool *pool);
/* Free all memory. With `leave`, memory that travels is left to the library for ever:
 * some operation may still touch it. */
void buffer_pool_close(buffer_pool *pool, bool leave);

#endif
