/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays that live as long as one piece of work and end together.
 *
 * One idea: each array hangs on its owner's list, so that one call gives all back; and one that there was no memory
 * for is remembered there, so that the owner asks once, after the last.
 * Invariant: what arrays_take gave is never resized and never given back alone.
 * Callers: overlays, the solvers of a plan, its check, pictures. Threads: one at a time for each list.
 */
#ifndef TRYST_TOPOLOGY_ARRAYS_H
#define TRYST_TOPOLOGY_ARRAYS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "tryst/status.h"

/* In front of each array; as large as malloc aligns. */
union array_link {
    union array_link *next;
    max_align_t align;
};

struct arrays {
    union array_link *first;
    tryst_status status; /* TRYST_E_NOMEM once one could not be had */
};

/** Zeroed; NULL: `status` says why. */
static inline void *arrays_take(struct arrays *arrays, size_t count, size_t item_bytes)
{
    const size_t most =
        item_bytes ? (SIZE_MAX - sizeof(union array_link)) / item_bytes : 0;
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

/** A copy; NULL where `from` is, or as above. */
static inline void *arrays_copy(struct arrays *arrays, const void *from, size_t count,
                                size_t item_bytes)
{
    void *copy = from ? arrays_take(arrays, count, item_bytes) : NULL;
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
