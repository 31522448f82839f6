/* SPDX-License-Identifier: Apache-2.0 */
/* Implements engine_buffer.h; see there for the idea. */
#include "engine_buffer.h"

#include <assert.h>
#include <stdlib.h>

#define BUFFER_ALIGN_BYTES  64
#define CHUNK_BUFFERS_FIRST 4

static buffer_class *class_find(buffer_pool *pool, size_t bytes, bool travels)
{
    for (buffer_class *self = pool->classes; self; self = self->next) {
        if (self->bytes == bytes && self->travels == travels) {
            return self;
        }
    }
    buffer_class *self = calloc(1, sizeof *self);
    if (self) {
        *self = (buffer_class){
            .next = pool->classes, .pool = pool, .bytes = bytes, .travels = travels};
        pool->classes = self;
    }
    return self;
}

static tryst_status chunk_allocate(buffer_class *self, size_t bytes, buffer_chunk *chunk)
{
    const buffer_pool *pool = self->pool;
    if (self->travels || pool->memory != TRYST_MEMORY_HOST) {
        return tryst_mem_alloc(pool->ctx, bytes, pool->memory, pool->device, &chunk->data,
                               &chunk->mem);
    }
    return posix_memalign(&chunk->data, BUFFER_ALIGN_BYTES, bytes) ? TRYST_E_NOMEM
                                                                   : TRYST_OK;
}

/* Cut a new chunk, as large as all before together, into free buffers. */
static tryst_status class_grow(buffer_class *self)
{
    const size_t count = self->made_count ? self->made_count : CHUNK_BUFFERS_FIRST;
    buffer_chunk *chunk = calloc(1, sizeof *chunk);
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
        chunk->buffers[i] = (buffer){.data = (char *)chunk->data + i * self->bytes,
                                     .mem = chunk->mem,
                                     .bytes = self->bytes,
                                     .owner = self,
                                     .next_free = self->free};
        self->free = &chunk->buffers[i];
    }
    chunk->count = count;
    chunk->next = self->chunks;
    self->chunks = chunk;
    self->made_count += count;
    self->pool->allocations_count++;
    return TRYST_OK;
}

tryst_status buffer_get(buffer_pool *pool, size_t bytes, bool travels, buffer **buffer_p)
{
    const size_t rounded =
        (bytes + BUFFER_ALIGN_BYTES - 1) / BUFFER_ALIGN_BYTES * BUFFER_ALIGN_BYTES;
    buffer_class *self =
        class_find(pool, rounded ? rounded : BUFFER_ALIGN_BYTES, travels);
    if (!self) {
        return TRYST_E_NOMEM;
    }
    if (!self->free) {
        const tryst_status status = class_grow(self);
        if (status != TRYST_OK) {
            return status;
        }
    }
    buffer *taken = self->free;
    self->free = taken->next_free;
    taken->uses = 1;
    pool->bytes_used += taken->bytes;
    if (pool->bytes_used > pool->bytes_peak) {
        pool->bytes_peak = pool->bytes_used;
    }
    *buffer_p = taken;
    return TRYST_OK;
}

void buffer_hold(buffer *self)
{
    assert(self->uses > 0);
    self->uses++;
}

void buffer_drop(buffer *self)
{
    if (!self) {
        return;
    }
    assert(self->uses > 0);
    if (--self->uses == 0) {
        self->owner->pool->bytes_used -= self->bytes;
        self->next_free = self->owner->free;
        self->owner->free = self;
    }
}

void buffer_pool_settle(buffer_pool *pool)
{
    for (buffer_class *self = pool->classes; self; self = self->next) {
        for (buffer_chunk *chunk = self->chunks; chunk; chunk = chunk->next) {
            for (size_t i = 0; i < chunk->count; i++) {
                chunk->buffers[i].after = NULL;
            }
        }
    }
}

static void chunk_close(buffer_chunk *chunk, bool leave)
{
    if (!chunk->mem) {
        free(chunk->data);
    } else if (!leave) {
        tryst_mem_release(chunk->mem);
    }
    free(chunk->buffers);
    free(chunk);
}

void buffer_pool_close(buffer_pool *pool, bool leave)
{
    while (pool->classes) {
        buffer_class *self = pool->classes;
        pool->classes = self->next;
        while (self->chunks) {
            buffer_chunk *chunk = self->chunks;
            self->chunks = chunk->next;
            chunk_close(chunk, leave);
        }
        free(self);
    }
}
