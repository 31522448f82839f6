/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays that live as long as one piece of work and are freed together.
 *
 * One idea: each array is linked into its owner's list, so that one call frees all; a
 * failed allocation is recorded in the list, so that the owner checks once, after the
 * last array.
 * Invariant: an array of the list is never resized and never freed alone.
 * Threads: one at a time for each list.
 */
#ifndef TRYST_CORE_MEMORY_ARRAYS_H
#define TRYST_CORE_MEMORY_ARRAYS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "tryst/status.h"

/** The header in front of each array; its size keeps the array at malloc's alignment. */
union array_link {
    union array_link *next;
    max_align_t align;
};

struct arrays {
    union array_link *first;
    tryst_status status; /**< TRYST_E_NOMEM after an allocation failed */
};

/** Allocate a zeroed array. On failure return NULL and set arrays->status to
 *  TRYST_E_NOMEM. */
static inline void *arrays_alloc(struct arrays *arrays, size_t count, size_t item_bytes)
{
    size_t most = item_bytes ? (SIZE_MAX - sizeof(union array_link)) / item_bytes : 0;
    union array_link *link =
        count <= most ? mem_zalloc(sizeof *link + count * item_bytes) : NULL;
    if (!link) {
        arrays->status = TRYST_E_NOMEM;
        return NULL;
    }
    link->next = arrays->first;
    arrays->first = link;
    return link + 1;
}

/** Allocate a copy of `from`; return NULL if `from` is NULL. On failure return NULL and
 *  set arrays->status to TRYST_E_NOMEM. */
static inline void *arrays_copy(struct arrays *arrays, const void *from, size_t count,
                                size_t item_bytes)
{
    void *copy = from ? arrays_alloc(arrays, count, item_bytes) : NULL;
    return copy ? memcpy(copy, from, count * item_bytes) : NULL;
}

static inline void arrays_free(struct arrays *arrays)
{
    while (arrays->first) {
        union array_link *link = arrays->first;
        arrays->first = link->next;
        mem_free(link);
    }
}

#endif
