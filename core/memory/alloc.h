/* SPDX-License-Identifier: Apache-2.0 */
/* The allocator through which all memory of ours goes.
 *
 * One idea: a thin skin over malloc that counts what is alive and can be told to fail the
 * nth allocation from now, so a test can walk through every failure that a caller must
 * bear. Invariant: when everything that was opened has been closed, both live counters
 * are back where they were. Callers: every layer; nothing here is on the path of a small
 * message (pools are). */
#ifndef TRYST_CORE_ALLOC_H
#define TRYST_CORE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Memory from these is given back with mem_free and nothing else. NULL means no memory
 * (or a failure that a test asked for); 0 bytes give a unique pointer. Any thread; never
 * blocks beyond what malloc does. */
void *mem_alloc(size_t bytes) __attribute__((malloc, warn_unused_result));
void *mem_zalloc(size_t bytes) __attribute__((malloc, warn_unused_result));

/* `align` is a power of two; `bytes` need not be a multiple of it. */
void *mem_alloc_aligned(size_t align, size_t bytes)
    __attribute__((malloc, warn_unused_result));

/* As realloc, but 0 bytes do not free. On NULL the old memory is untouched and still
 * owned. Alignment beyond malloc's own is lost. */
void *mem_resize(void *mem, size_t bytes) __attribute__((warn_unused_result));

/* Zeroed memory for `count` items of `item_bytes`; NULL also when the product overflows.
 */
void *mem_zalloc_array(size_t count, size_t item_bytes)
    __attribute__((malloc, warn_unused_result));

/* Room for at least `need` items in the array whose pointer is at `items_p` (NULL there: none yet) and
 * which has room for `*room_p`: it at least doubles, so appending one by one copies little. False
 * without memory, or where the size overflows; nothing has changed then. */
bool mem_reserve(void *items_p, size_t *room_p, size_t need, size_t item_bytes)
    __attribute__((warn_unused_result));

char *mem_strdup(const char *text) __attribute__((malloc, warn_unused_result));

/* NULL is allowed. */
void mem_free(void *mem);

/* What is alive now. The bytes are what malloc set aside, not what was asked for. */
uint64_t alloc_live_count(void);
uint64_t alloc_live_bytes(void);

/* How many allocations (resizes included) were tried since the process began. */
uint64_t alloc_seen_count(void);

/* For tests. The nth allocation from now, in any thread, fails once (1 is the next one);
 * a second call replaces the first. alloc_fail_off takes it back, and says whether the
 * failure had come to pass, which is how a walk over all of them knows its end. */
void alloc_fail_at(uint64_t nth);
bool alloc_fail_off(void);

#endif
