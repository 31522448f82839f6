/* SPDX-License-Identifier: Apache-2.0 */
/* Pool of objects of one size.
 *
 * One idea: a free list, the last in first out, in front of chunks that are only given back
 * when the pool closes, so a warm pool never allocates and the object it hands out is the
 * one most likely in cache. Invariant: objects out + objects free = objects in all chunks
 * (pool_is_valid says so). Callers: operations, frames, records: what comes and goes with
 * every message. */
#ifndef TRYST_CORE_POOL_H
#define TRYST_CORE_POOL_H

#include <stdbool.h>
#include <stddef.h>

#include "tryst/status.h"

struct pool;

/* Objects of `item_bytes` (at least 1), each at a multiple of `align`, a power of two. Allocates nothing
 * but the pool itself. TRYST_OK, TRYST_E_NOMEM, TRYST_E_INVALID. */
tryst_status pool_open(size_t item_bytes, size_t align, struct pool **pool_p);

/* Any thread; one atomic exchange, or one short lock. The contents are undefined. NULL: no memory
 * (only when all objects are out). */
void *pool_get(struct pool *pool) __attribute__((warn_unused_result));

/* Any thread, not only the one that got it. NULL is allowed. */
void pool_put(struct pool *pool, void *object);

/* Returns how many objects are still out. Callers assert that it is 0. If it is not, the
 * memory is kept rather than pulled from under whoever holds it, and the leak stays
 * visible in alloc_live_count. NULL is allowed. */
size_t pool_close(struct pool *pool);

/* How many are out. */
size_t pool_in_use(struct pool *pool);

/* Walks the free list: each entry lies in a chunk on an object's start and the counts add
 * up. */
bool pool_is_valid(struct pool *pool);

#endif
