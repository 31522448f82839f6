/* SPDX-License-Identifier: Apache-2.0 */
/* The allocator of the whole library.
 *
 * One idea: a thin layer over malloc that counts live memory and can fail the nth
 * allocation from now, so a test can walk through every failure that a caller must
 * survive. Invariant: when everything that was opened has been closed, both live counters
 * have their earlier values. The path of a small message takes objects from pools
 * (pool.h) and calls nothing here. */
#ifndef TRYST_CORE_MEMORY_ALLOC_H
#define TRYST_CORE_MEMORY_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Allocate memory; free it by mem_free only. Returns NULL when out of memory or when a
 *  test injected the failure; 0 bytes give a unique pointer. Any thread; blocks no longer
 *  than malloc does. */
void *mem_alloc(size_t bytes) __attribute__((malloc, warn_unused_result));
void *mem_zalloc(size_t bytes) __attribute__((malloc, warn_unused_result));

/** Allocate memory at a multiple of `align`, a power of two; `bytes` need not be a
 *  multiple of `align`. */
void *mem_alloc_aligned(size_t align, size_t bytes)
    __attribute__((malloc, warn_unused_result));

/** Resize as realloc does, but 0 bytes do not free. On NULL the old memory is unchanged
 *  and still the caller's. An alignment beyond malloc's own is lost. */
void *mem_resize(void *mem, size_t bytes) __attribute__((warn_unused_result));

/** Allocate zeroed memory for `count` items of `item_bytes`; NULL also when the product
 *  overflows. */
void *mem_zalloc_array(size_t count, size_t item_bytes)
    __attribute__((malloc, warn_unused_result));

/** Make room for at least `need` items in an array: `items_p` is the address of the
 *  pointer to the array (a pointer that is NULL at first), `*room_p` the number of items
 *  that fit. The room at least doubles, so appending one by one copies little. False,
 *  with nothing changed, without memory or if the size overflows. */
bool mem_reserve(void *items_p, size_t *room_p, size_t need, size_t item_bytes)
    __attribute__((warn_unused_result));

char *mem_strdup(const char *text) __attribute__((malloc, warn_unused_result));

/** Free memory of this allocator. NULL is allowed. */
void mem_free(void *mem);

/** Return the allocations that are live now, and their bytes as malloc sized them, which
 *  may exceed the bytes requested. */
uint64_t alloc_live_count(void);
uint64_t alloc_live_bytes(void);

/** Return the number of attempted allocations, resizes included, since the process began.
 */
uint64_t alloc_seen_count(void);

/** For tests: fail the nth allocation from now (1 is the next one) once, in whichever
 *  thread; a second call replaces the first. alloc_fail_off cancels the failure, and
 *  returns true if the failure has happened. False means that there were fewer than n
 *  allocations, so a test that walks through all of them ends. */
void alloc_fail_at(uint64_t nth);
bool alloc_fail_off(void);

#endif
