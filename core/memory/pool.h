/* SPDX-License-Identifier: Apache-2.0 */
/* Pool of objects of one size, for operations, frames and records, which come and go with
 * every message.
 *
 * One idea: a free list, last in, first out, in front of chunks that are freed only when
 * the pool closes. A warm pool therefore never allocates, and hands out the object that
 * is most likely in cache. Invariant: objects out + objects free = objects in all chunks
 * (pool_is_valid). */
#ifndef TRYST_CORE_MEMORY_POOL_H
#define TRYST_CORE_MEMORY_POOL_H

#include <stdbool.h>
#include <stddef.h>

#include "tryst/status.h"

struct pool;

/** Open a pool of objects of `item_bytes` (at least 1), each at a multiple of `align`, a
 *  power of two. Allocates only the pool itself. Returns TRYST_OK, TRYST_E_NOMEM,
 *  TRYST_E_INVALID. */
tryst_status pool_open(size_t item_bytes, size_t align, struct pool **pool_p);

/** Get an object with undefined contents; NULL without memory, which can only happen when
 *  all objects are out. Any thread; takes one atomic exchange, or one short lock. */
void *pool_get(struct pool *pool) __attribute__((warn_unused_result));

/** Put an object back. Any thread, not only the one that got the object. NULL is allowed.
 */
void pool_put(struct pool *pool, void *object);

/** Close a pool; returns the number of objects that are still out. Callers assert 0. With
 *  objects out the memory stays allocated, since they may still be used, and
 *  alloc_live_count shows the leak. NULL is allowed. */
size_t pool_close(struct pool *pool);

/** Return the number of objects that are out. */
size_t pool_in_use(struct pool *pool);

/** True if the free list is consistent: each entry is the start of an object in a chunk,
 *  and the counts add up. */
bool pool_is_valid(struct pool *pool);

#endif
