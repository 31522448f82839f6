/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pinned slots, of powers of two. A pinned slot is kept until the end, since
 * unpinning waits for the device, where a stream may be waiting for an operation of this
 * library. To pin less, a size above the smallest that has two slots uses an idle slot of
 * a larger size before it gets a third one.
 *
 * Invariant: a chunk's slots are all of one class; `bytes` of a side is the sum of its
 * chunks of other classes than the smallest. A small tensor never holds a slot of another
 * class, so a slice that finds no slot waits for other slices only.
 */
#include "transports/memory/slots.h"

#include <assert.h>

#include "core/memory/alloc.h"

/* The smallest slots are pinned 16 at a time, since each pinned allocation is slow. */
enum { SMALL_BITS = 12, SMALL_COUNT = 16, ALWAYS = 2 };
static_assert(1u << SMALL_BITS == SLOT_SMALL_BYTES, "one size");

struct slot_chunk {
    struct list_node node;
    const struct memory_ops *memory;
    int32_t device;
    void *data;
    size_t bytes;
    struct tryst_mem *mem;
    bool is_plain; /* not pinned: closed with its last slot */
    uint32_t class, count, used;
    struct slot slots[];
};

void slots_init(struct slots *slots, struct memory_cache *cache, uint64_t limit_bytes)
{
    slots->cache = cache;
    slots->limit_bytes = limit_bytes;
    slots->closed = NULL;
    for (int way = 0; way < COPY_WAYS; way++) {
        struct slots_side *side = &slots->sides[way];
        list_init(&side->chunks);
        for (int class = 0; class < SLOT_CLASSES; class ++) {
            list_init(&side->free[class]);
            side->held[class] = 0;
        }
        side->bytes = 0;
    }
}

static void chunk_close(struct slots_side *side, struct slot_chunk *chunk)
{
    assert(chunk->used == 0);
    for (uint32_t i = 0; i < chunk->count; i++)
        list_remove(&chunk->slots[i].node);
    list_remove(&chunk->node);
    side->held[chunk->class] -= chunk->count;
    if (chunk->class > SMALL_BITS)
        side->bytes -= chunk->bytes;
    memory_release(chunk->mem);
    if (chunk->is_plain)
        mem_free(chunk->data);
    else
        chunk->memory->pinned_free(chunk->device, chunk->data, chunk->bytes);
    mem_free(chunk);
}

void slots_end(struct slots *slots)
{
    for (int way = 0; way < COPY_WAYS; way++) {
        struct slots_side *side = &slots->sides[way];
        list_for_each_safe (&side->chunks, node, after)
            chunk_close(side, container_of(node, struct slot_chunk, node));
    }
}

/* Return the least class with slots of `bytes`. */
static uint32_t slot_class(size_t bytes)
{
    uint32_t class = SMALL_BITS;
    while (class < SLOT_CLASSES - 1 && (size_t)1 << class < bytes)
        class ++;
    return class;
}

static void chunk_carve(struct slots_side *side, struct slot_chunk *chunk)
{
    size_t bytes = chunk->bytes / chunk->count;
    for (uint32_t i = 0; i < chunk->count; i++) {
        chunk->slots[i] = (struct slot){.data = (char *)chunk->data + i * bytes,
                                        .bytes = bytes,
                                        .mem = chunk->mem,
                                        .chunk = chunk};
        list_push_back(&side->free[chunk->class], &chunk->slots[i].node);
    }
}

/* Allocate a chunk's memory, pinned if that may be now. */
static tryst_status chunk_alloc(struct slots *slots, struct slot_chunk *chunk)
{
    chunk->is_plain = !pinning_begin(slots->closed);
    if (chunk->is_plain) {
        chunk->data = mem_alloc(chunk->bytes);
        return chunk->data ? TRYST_OK : TRYST_E_NOMEM;
    }
    tryst_status status =
        chunk->memory->pinned_alloc(chunk->device, chunk->bytes, &chunk->data);
    pinning_end(slots->closed);
    return status;
}

static bool chunk_open(struct slots *slots, struct slots_side *side,
                       const struct memory_ops *memory, int32_t device, uint32_t class)
{
    uint32_t count = class == SMALL_BITS ? SMALL_COUNT : 1;
    size_t bytes = ((size_t)1 << class) * count;
    if (class > SMALL_BITS && side->held[class] >= ALWAYS &&
        (bytes > slots->limit_bytes || side->bytes > slots->limit_bytes - bytes))
        return false;
    struct slot_chunk *chunk = mem_zalloc(sizeof *chunk + count * sizeof chunk->slots[0]);
    if (!chunk)
        return false;
    chunk->memory = memory;
    chunk->device = device;
    chunk->bytes = bytes;
    chunk->class = class;
    chunk->count = count;
    if (chunk_alloc(slots, chunk) != TRYST_OK) {
        mem_free(chunk);
        return false;
    }
    /* if this fails, a rail that needs registrations registers each bulk */
    if (slots->cache && !chunk->is_plain)
        (void)memory_register(slots->cache, chunk->data, bytes, TRYST_MEMORY_HOST, 0,
                              &chunk->mem);
    if (class > SMALL_BITS)
        side->bytes += bytes;
    side->held[class] += count;
    list_push_back(&side->chunks, &chunk->node);
    chunk_carve(side, chunk);
    return true;
}

/* Get the smallest class from `class` on that has a free slot. If none has, return
 * `class`. */
static uint32_t class_free(const struct slots_side *side, uint32_t class)
{
    for (uint32_t i = class; i < SLOT_CLASSES; i++)
        if (!list_empty(&side->free[i]))
            return i;
    return class;
}

struct slot *slots_get(struct slots *slots, const struct memory_ops *memory,
                       int32_t device, enum copy_way way, size_t bytes)
{
    struct slots_side *side = &slots->sides[way];
    uint32_t class = slot_class(bytes), from = class;
    if ((size_t)1 << class < bytes)
        return NULL;
    if (class > SMALL_BITS && side->held[class] >= ALWAYS)
        from = class_free(side, class);
    if (list_empty(&side->free[from])) {
        if (!chunk_open(slots, side, memory, device, class))
            return NULL;
        from = class;
    }
    struct slot *slot =
        container_of(list_pop_front(&side->free[from]), struct slot, node);
    slot->chunk->used++;
    return slot;
}

void slots_put(struct slots *slots, enum copy_way way, struct slot *slot)
{
    struct slot_chunk *chunk = slot->chunk;
    chunk->used--;
    list_push_front(&slots->sides[way].free[chunk->class], &slot->node);
    if (chunk->is_plain && !chunk->used)
        chunk_close(&slots->sides[way], chunk);
}
