/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffers of scratch (scratch.h).
 *
 * Idea: the bytes of a buffer are a power of two. The unused buffers of a size are a list
 * inside their own memory, so a warm engine allocates nothing. They are freed only when
 * the bound leaves no room for a new buffer.
 *
 * Invariant: `bytes` is the sum of all buffers, lent and unused. The sum exceeds the
 * limit only by a single buffer that is larger than the limit, and after the return of
 * this buffer until the next one of another size is allocated.
 */
#include "scratch.h"

#include <assert.h>

#include "core/memory/alloc.h"

enum { LINE_BYTES = 64 };

static unsigned size_of(size_t bytes)
{
    unsigned size = 12; /* 4 KiB, the least slice of a flow */
    while (size < SCRATCH_SIZES - 1 && (size_t)1 << size < bytes)
        size++;
    return size;
}

void scratch_init(struct scratch *scratch, uint64_t limit_bytes)
{
    *scratch = (struct scratch){.limit_bytes = limit_bytes};
    for (int i = 0; i < SCRATCH_SIZES; i++)
        list_init(&scratch->free[i]);
    urgent_init(&scratch->waiters);
}

/* Free unused buffers of all sizes until at most `bytes` are allocated. */
static void scratch_trim(struct scratch *scratch, uint64_t bytes)
{
    for (unsigned i = 0; i < SCRATCH_SIZES; i++) {
        while (scratch->bytes > bytes) {
            struct list_node *node = list_pop_front(&scratch->free[i]);
            if (!node)
                break;
            scratch->bytes -= UINT64_C(1) << i;
            mem_free(node);
        }
    }
}

void scratch_close(struct scratch *scratch)
{
    assert(!scratch->lent);
    scratch_trim(scratch, 0);
}

bool scratch_has(const struct scratch *scratch, size_t bytes)
{
    unsigned size = size_of(bytes);
    if (!scratch->lent || !list_empty(&scratch->free[size]))
        return true;
    return scratch->lent_bytes + (UINT64_C(1) << size) <= scratch->limit_bytes;
}

tryst_status scratch_get(struct scratch *scratch, size_t bytes, void **buffer_p)
{
    unsigned size = size_of(bytes);
    struct list_node *buffer = list_pop_front(&scratch->free[size]);
    if (!buffer) {
        if (!scratch_has(scratch, bytes))
            return TRYST_AGAIN;
        uint64_t more = UINT64_C(1) << size, limit = scratch->limit_bytes;
        scratch_trim(scratch, limit > more ? limit - more : 0);
        buffer = mem_alloc_aligned(LINE_BYTES, (size_t)1 << size);
        if (!buffer)
            return scratch->lent ? TRYST_AGAIN : TRYST_E_NOMEM;
        scratch->bytes += UINT64_C(1) << size;
    }
    scratch->lent++;
    scratch->lent_bytes += UINT64_C(1) << size;
    *buffer_p = buffer;
    return TRYST_OK;
}

void scratch_put(struct scratch *scratch, size_t bytes, void *buffer)
{
    struct list_node *node = buffer;
    list_node_init(node);
    list_push_front(&scratch->free[size_of(bytes)], node);
    scratch->lent--;
    scratch->lent_bytes -= UINT64_C(1) << size_of(bytes);
}
