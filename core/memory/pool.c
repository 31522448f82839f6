/* SPDX-License-Identifier: Apache-2.0 */
/* The object pool; see pool.h.
 *
 * A mutex guards a list of free objects, linked through their own first word. In front of
 * the list a few slots hold one free object each: objects that come and go with every
 * message move through the slots by one exchange, without a lock. An exchange takes or
 * gives a whole object, so there is no link to follow, and no ABA as in a lock-free list.
 *
 * Memory order of a slot: slot_item_put releases the object and slot_item_get acquires
 * it, so everything that the last user did to an object happens before its next use.
 *
 * Under AddressSanitizer an object in the pool is poisoned after its link, so a use after
 * pool_put is reported where it happens. */
#include "core/memory/pool.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "core/memory/alloc.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POOL_POISONS 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define POOL_POISONS 1
#endif
#ifdef POOL_POISONS
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(mem, bytes)   ((void)(mem), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(mem, bytes) ((void)(mem), (void)(bytes))
#endif

/* A ping-pong keeps a receive and two sends under way. */
enum { SLOTS = 4 };

#define CHUNK_BYTES ((size_t)16 * 1024) /* four pages, so that little is wasted */

struct item {
    struct item *next;
};

struct chunk {
    struct chunk *next;
};

struct pool {
    _Atomic(struct item *) slots[SLOTS]; /* one free object each, or NULL */
    /* guards the members below that are not constant */
    pthread_mutex_t lock;
    struct item *free;
    struct chunk *chunks;
    /* in_use: objects not in `free`, those in the slots included; items: objects of all
     * chunks */
    size_t in_use, items;
    size_t align;        /* constant after pool_open */
    size_t chunk_items;  /* objects of each chunk; constant */
    size_t stride_bytes; /* from one object to the next; constant */
    size_t first_bytes;  /* from a chunk's start to its first object; constant */
};

static size_t round_up(size_t bytes, size_t align)
{
    return (bytes + align - 1) / align * align;
}

tryst_status pool_open(size_t item_bytes, size_t align, struct pool **pool_p)
{
    if (item_bytes == 0 || item_bytes > SIZE_MAX / 4 || align == 0 ||
        (align & (align - 1)) != 0)
        return TRYST_E_INVALID;
    struct pool *pool = mem_zalloc(sizeof *pool);
    if (!pool)
        return TRYST_E_NOMEM;
    pool->align = align < sizeof(struct item) ? sizeof(struct item) : align;
    pool->stride_bytes = round_up(item_bytes, pool->align);
    pool->first_bytes = round_up(sizeof(struct chunk), pool->align);
    pool->chunk_items = 1 + CHUNK_BYTES / pool->stride_bytes;
    pthread_mutex_init(&pool->lock, NULL);
    *pool_p = pool;
    return TRYST_OK;
}

static struct item *chunk_item(const struct pool *pool, struct chunk *chunk, size_t index)
{
    char *first = (char *)chunk + pool->first_bytes;
    return (struct item *)(void *)(first + index * pool->stride_bytes);
}

static void item_poison(const struct pool *pool, struct item *item)
{
    ASAN_POISON_MEMORY_REGION(item + 1, pool->stride_bytes - sizeof *item);
}

static void item_unpoison(const struct pool *pool, struct item *item)
{
    ASAN_UNPOISON_MEMORY_REGION(item + 1, pool->stride_bytes - sizeof *item);
}

/* Add one chunk if there is memory. The caller holds the lock. */
static void pool_grow(struct pool *pool)
{
    struct chunk *chunk = mem_alloc_aligned(
        pool->align, pool->first_bytes + pool->chunk_items * pool->stride_bytes);
    if (!chunk)
        return;
    chunk->next = pool->chunks;
    pool->chunks = chunk;
    pool->items += pool->chunk_items;
    for (size_t i = pool->chunk_items; i-- > 0;) {
        struct item *item = chunk_item(pool, chunk, i);
        item->next = pool->free;
        pool->free = item;
        item_poison(pool, item);
    }
}

/* Take an object from a slot, or NULL. */
static struct item *slot_item_get(struct pool *pool)
{
    for (int i = 0; i < SLOTS; i++) {
        /* relaxed: a test before the exchange. acquire: partner of slot_item_put. */
        if (!atomic_load_explicit(&pool->slots[i], memory_order_relaxed))
            continue;
        struct item *item =
            atomic_exchange_explicit(&pool->slots[i], NULL, memory_order_acquire);
        if (item)
            return item;
    }
    return NULL;
}

/* Give an object to the first empty slot, since slot_item_get begins with the first.
 * False if all slots are taken. */
static bool slot_item_put(struct pool *pool, struct item *item)
{
    for (int i = 0; i < SLOTS; i++) {
        struct item *none = NULL;
        /* relaxed: a test before the exchange. release: partner of slot_item_get. */
        if (!atomic_load_explicit(&pool->slots[i], memory_order_relaxed) &&
            atomic_compare_exchange_strong_explicit(
                &pool->slots[i], &none, item, memory_order_release, memory_order_relaxed))
            return true;
    }
    return false;
}

/* Take an object from the list. Not inlined, and neither is list_item_put, because
 * pool_get and pool_put mostly need no lock. */
__attribute__((noinline)) static struct item *list_item_get(struct pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    if (!pool->free)
        pool_grow(pool);
    struct item *item = pool->free;
    if (item) {
        pool->free = item->next;
        pool->in_use++;
    }
    pthread_mutex_unlock(&pool->lock);
    return item;
}

__attribute__((noinline)) static void list_item_put(struct pool *pool, struct item *item)
{
    pthread_mutex_lock(&pool->lock);
    assert(pool->in_use > 0);
    item->next = pool->free;
    pool->free = item;
    pool->in_use--;
    pthread_mutex_unlock(&pool->lock);
}

void *pool_get(struct pool *pool)
{
    struct item *item = slot_item_get(pool);
    if (!item)
        item = list_item_get(pool);
    if (item)
        item_unpoison(pool, item);
    return item;
}

void pool_put(struct pool *pool, void *object)
{
    struct item *item = object;
    if (!item)
        return;
    item_poison(pool, item);
    if (!slot_item_put(pool, item))
        list_item_put(pool, item);
}

/* Return the objects of all slots to the list. */
static void slots_empty(struct pool *pool)
{
    struct item *item;
    while ((item = slot_item_get(pool)) != NULL)
        list_item_put(pool, item);
}

size_t pool_close(struct pool *pool)
{
    if (!pool)
        return 0;
#ifdef TRYST_PARANOID
    assert(pool_is_valid(pool));
#endif
    size_t out = pool_in_use(pool);
    if (out > 0)
        return out;
    for (struct chunk *chunk = pool->chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        ASAN_UNPOISON_MEMORY_REGION(chunk_item(pool, chunk, 0),
                                    pool->chunk_items * pool->stride_bytes);
        mem_free(chunk);
    }
    pthread_mutex_destroy(&pool->lock);
    mem_free(pool);
    return 0;
}

size_t pool_in_use(struct pool *pool)
{
    slots_empty(pool);
    pthread_mutex_lock(&pool->lock);
    size_t in_use = pool->in_use;
    pthread_mutex_unlock(&pool->lock);
    return in_use;
}

/* True if `item` is the start of an object of one of the chunks. */
static bool pool_holds(const struct pool *pool, const struct item *item)
{
    for (struct chunk *chunk = pool->chunks; chunk; chunk = chunk->next) {
        uintptr_t first = (uintptr_t)chunk_item(pool, chunk, 0);
        uintptr_t offset = (uintptr_t)item - first; /* huge if before the first object */
        if (offset < pool->chunk_items * pool->stride_bytes)
            return offset % pool->stride_bytes == 0;
    }
    return false;
}

bool pool_is_valid(struct pool *pool)
{
    slots_empty(pool);
    pthread_mutex_lock(&pool->lock);
    size_t free_count = 0;
    size_t expected = pool->items - pool->in_use;
    bool valid = pool->in_use <= pool->items;
    for (struct item *item = pool->free; valid && item; item = item->next)
        valid = pool_holds(pool, item) && ++free_count <= expected;
    valid = valid && free_count == expected;
    pthread_mutex_unlock(&pool->lock);
    return valid;
}
