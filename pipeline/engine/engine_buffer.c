/* SPDX-License-Identifier: Apache-2.0 */
/* Implements engine_buffer.h; the idea is described there. */
#include "engine_buffer.h"

#include <assert.h>
#include <stdlib.h>

#define BUFFER_ALIGN_BYTES  64
#define CHUNK_BUFFERS_FIRST 4
/* Limit of a chunk of several blocks, and so of the memory that is allocated ahead of
 * need for each size. */
#define CHUNK_BYTES_MAX (64u << 20)

/* Insert a free block at the end of the free list (`behind`) or at its front. */
static void class_put(struct buffer_class *self, struct buffer *block, bool behind)
{
    if (behind && self->free) {
        block->next_free = NULL;
        self->last_free->next_free = block;
        self->last_free = block;
        return;
    }
    block->next_free = self->free;
    self->last_free = self->free ? self->last_free : block;
    self->free = block;
}

static struct buffer_class *class_find(struct buffer_pool *pool, size_t bytes,
                                       bool travels)
{
    for (struct buffer_class *self = pool->classes; self; self = self->next) {
        if (self->bytes == bytes && self->travels == travels) {
            return self;
        }
    }
    struct buffer_class *self = calloc(1, sizeof *self);
    if (self) {
        *self = (struct buffer_class){
            .next = pool->classes, .pool = pool, .bytes = bytes, .travels = travels};
        pool->classes = self;
    }
    return self;
}

static tryst_status chunk_allocate(struct buffer_class *self, size_t bytes,
                                   struct buffer_chunk *chunk)
{
    const struct buffer_pool *pool = self->pool;
    if (self->travels || pool->memory != TRYST_MEMORY_HOST) {
        return tryst_mem_alloc(pool->ctx, bytes, pool->memory, pool->device, &chunk->data,
                               &chunk->mem);
    }
    return posix_memalign(&chunk->data, BUFFER_ALIGN_BYTES, bytes) ? TRYST_E_NOMEM
                                                                   : TRYST_OK;
}

/* Return the number of blocks of the next chunk: as many as all earlier chunks have
 * together, within CHUNK_BYTES_MAX and the pool's limit. 0: the limit leaves no room for
 * a block. */
static size_t class_growth(const struct buffer_class *self)
{
    const struct buffer_pool *pool = self->pool;
    size_t wanted = self->made_count ? self->made_count : CHUNK_BUFFERS_FIRST;
    size_t ahead = self->bytes < CHUNK_BYTES_MAX ? CHUNK_BYTES_MAX / self->bytes : 1;
    size_t most = wanted < ahead ? wanted : ahead;
    if (pool->bytes_max == 0) {
        return most;
    }
    uint64_t left =
        pool->bytes_max > pool->bytes_made ? pool->bytes_max - pool->bytes_made : 0;
    return left / self->bytes < most ? (size_t)(left / self->bytes) : most;
}

/* Allocate a chunk of `count` blocks and make each of them a free buffer. */
static tryst_status class_add(struct buffer_class *self, size_t count)
{
    struct buffer_chunk *chunk = calloc(1, sizeof *chunk);
    if (!chunk) {
        return TRYST_E_NOMEM;
    }
    chunk->buffers = calloc(count, sizeof *chunk->buffers);
    tryst_status status =
        chunk->buffers ? chunk_allocate(self, count * self->bytes, chunk) : TRYST_E_NOMEM;
    if (status != TRYST_OK) {
        free(chunk->buffers);
        free(chunk);
        return status;
    }
    for (size_t i = 0; i < count; i++) {
        chunk->buffers[i] = (struct buffer){.data = (char *)chunk->data + i * self->bytes,
                                            .mem = chunk->mem,
                                            .begin = chunk->data,
                                            .bytes = self->bytes,
                                            .owner = self};
        class_put(self, &chunk->buffers[i], false);
    }
    chunk->count = count;
    chunk->next = self->chunks;
    self->chunks = chunk;
    self->made_count += count;
    self->pool->allocations_count++;
    self->pool->bytes_made += count * self->bytes;
    return TRYST_OK;
}

/* Add a chunk. On a device, halve the number of blocks until they fit. */
static tryst_status class_grow(struct buffer_class *self)
{
    size_t count = class_growth(self);
    tryst_status status = count > 0 ? class_add(self, count) : TRYST_E_NOMEM;
    while (self->pool->memory != TRYST_MEMORY_HOST && status == TRYST_E_NOMEM &&
           count > 1) {
        count /= 2;
        status = class_add(self, count);
    }
    return status;
}

static size_t class_bytes(size_t bytes)
{
    size_t rounded =
        (bytes + BUFFER_ALIGN_BYTES - 1) / BUFFER_ALIGN_BYTES * BUFFER_ALIGN_BYTES;
    return rounded ? rounded : BUFFER_ALIGN_BYTES;
}

tryst_status buffer_get_idle(struct buffer_pool *pool, size_t bytes,
                             struct buffer **buffer_p)
{
    struct buffer_class *self = class_find(pool, class_bytes(bytes), false);
    if (!self) {
        return TRYST_E_NOMEM;
    }
    const struct buffer *next = self->free;
    if (next && next->after &&
        tryst_event_test(pool->handle, next->after) == TRYST_IN_PROGRESS) {
        (void)class_grow(self); /* a failure is harmless: buffer_get takes a busy block */
    }
    return buffer_get(pool, bytes, false, buffer_p);
}

tryst_status buffer_get(struct buffer_pool *pool, size_t bytes, bool travels,
                        struct buffer **buffer_p)
{
    struct buffer_class *self = class_find(pool, class_bytes(bytes), travels);
    if (!self) {
        return TRYST_E_NOMEM;
    }
    if (!self->free) {
        tryst_status status = class_grow(self);
        if (status != TRYST_OK) {
            return status;
        }
    }
    struct buffer *taken = self->free;
    self->free = taken->next_free;
    taken->uses = 1;
    pool->bytes_used += taken->bytes;
    if (pool->bytes_used > pool->bytes_peak) {
        pool->bytes_peak = pool->bytes_used;
    }
    *buffer_p = taken;
    return TRYST_OK;
}

void buffer_drop(struct buffer *self)
{
    if (!self) {
        return;
    }
    assert(self->uses > 0);
    if (--self->uses == 0) {
        self->owner->pool->bytes_used -= self->bytes;
        class_put(self->owner, self, self->owner->pool->memory != TRYST_MEMORY_HOST);
    }
}

static void buffer_settle(const struct buffer_pool *pool, struct buffer *self)
{
    if (self->after && tryst_event_test(pool->handle, self->after) != TRYST_IN_PROGRESS) {
        self->after = NULL;
    }
}

void buffer_pool_settle(struct buffer_pool *pool)
{
    for (struct buffer_class *self = pool->classes; self; self = self->next) {
        for (struct buffer_chunk *chunk = self->chunks; chunk; chunk = chunk->next) {
            for (size_t i = 0; i < chunk->count; i++) {
                buffer_settle(pool, &chunk->buffers[i]);
            }
        }
    }
}

static void chunk_close(struct buffer_chunk *chunk, bool leave)
{
    if (!chunk->mem) {
        free(chunk->data);
    } else if (!leave) {
        tryst_mem_release(chunk->mem);
    }
    free(chunk->buffers);
    free(chunk);
}

void buffer_pool_close(struct buffer_pool *pool, bool leave)
{
    while (pool->classes) {
        struct buffer_class *self = pool->classes;
        pool->classes = self->next;
        while (self->chunks) {
            struct buffer_chunk *chunk = self->chunks;
            self->chunks = chunk->next;
            chunk_close(chunk, leave);
        }
        free(self);
    }
}
