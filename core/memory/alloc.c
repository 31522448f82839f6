/* SPDX-License-Identifier: Apache-2.0 */
/* The allocator; see alloc.h. malloc_usable_size gives the sizes, so no header precedes
 * the caller's bytes: malloc's alignment holds, and tools that intercept malloc work. */
#include "core/memory/alloc.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define RESERVE_FIRST 16u /* first room of a growing array, in items */

/* All accesses are relaxed: the counters order nothing. */
static _Atomic uint64_t live_count, live_bytes, seen_count;

/* The allocation that fails, by its number in seen_count; 0: none. Relaxed: a test that
 * injects a failure into another thread has synchronised with that thread by other
 * means. */
static _Atomic uint64_t fail_at;
static _Atomic bool failed;

static uint64_t counter_get(_Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static void counter_add(_Atomic uint64_t *counter, uint64_t by)
{
    atomic_fetch_add_explicit(counter, by, memory_order_relaxed);
}

/* Count an attempt. True if this attempt is the one that a test made fail. */
static bool must_fail(void)
{
    uint64_t seen = atomic_fetch_add_explicit(&seen_count, 1, memory_order_relaxed) + 1;
    uint64_t at = counter_get(&fail_at);
    if (at == 0 || seen < at)
        return false;
    /* the swap lets exactly one attempt fail, whatever the number of threads */
    if (!atomic_compare_exchange_strong_explicit(&fail_at, &at, 0, memory_order_relaxed,
                                                 memory_order_relaxed))
        return false;
    atomic_store_explicit(&failed, true, memory_order_relaxed);
    return true;
}

static void *live_add(void *mem)
{
    if (!mem)
        return NULL;
    counter_add(&live_count, 1);
    counter_add(&live_bytes, malloc_usable_size(mem));
    return mem;
}

void *mem_alloc(size_t bytes)
{
    return must_fail() ? NULL : live_add(malloc(bytes ? bytes : 1));
}

void *mem_zalloc(size_t bytes)
{
    return mem_zalloc_array(1, bytes);
}

void *mem_zalloc_array(size_t count, size_t item_bytes)
{
    size_t bytes;
    if (must_fail() || __builtin_mul_overflow(count, item_bytes, &bytes))
        return NULL;
    return live_add(calloc(1, bytes ? bytes : 1));
}

void *mem_alloc_aligned(size_t align, size_t bytes)
{
    if (align < sizeof(void *))
        align = sizeof(void *);
    void *mem = NULL;
    if (must_fail() || posix_memalign(&mem, align, bytes ? bytes : 1) != 0)
        return NULL;
    return live_add(mem);
}

void *mem_resize(void *mem, size_t bytes)
{
    if (!mem)
        return mem_alloc(bytes);
    if (must_fail())
        return NULL;
    size_t old_bytes = malloc_usable_size(mem);
    void *resized = realloc(mem, bytes ? bytes : 1);
    if (!resized)
        return NULL;
    counter_add(&live_bytes, malloc_usable_size(resized) - old_bytes);
    return resized;
}

bool mem_reserve(void *items_p, size_t *room_p, size_t need, size_t item_bytes)
{
    size_t room = *room_p > RESERVE_FIRST / 2 ? 2 * *room_p : RESERVE_FIRST, bytes;
    if (need <= *room_p)
        return true;
    room = room > need ? room : need;
    if (__builtin_mul_overflow(room, item_bytes, &bytes))
        return false;
    void *items;
    memcpy(&items, items_p, sizeof items); /* a pointer of any type */
    items = mem_resize(items, bytes);
    if (!items)
        return false;
    memcpy(items_p, &items, sizeof items);
    *room_p = room;
    return true;
}

char *mem_strdup(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = mem_alloc(bytes);
    return copy ? memcpy(copy, text, bytes) : NULL;
}

void mem_free(void *mem)
{
    if (!mem)
        return;
    counter_add(&live_count, (uint64_t)-1);
    counter_add(&live_bytes, -(uint64_t)malloc_usable_size(mem));
    free(mem);
}

uint64_t alloc_live_count(void)
{
    return counter_get(&live_count);
}

uint64_t alloc_live_bytes(void)
{
    return counter_get(&live_bytes);
}

uint64_t alloc_seen_count(void)
{
    return counter_get(&seen_count);
}

void alloc_fail_at(uint64_t nth)
{
    atomic_store_explicit(&failed, false, memory_order_relaxed);
    atomic_store_explicit(&fail_at, alloc_seen_count() + nth, memory_order_relaxed);
}

bool alloc_fail_off(void)
{
    atomic_store_explicit(&fail_at, 0, memory_order_relaxed);
    return atomic_exchange_explicit(&failed, false, memory_order_relaxed);
}
