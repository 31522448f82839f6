/* SPDX-License-Identifier: Apache-2.0 */
/* The bounded ring of mpsc.h: D. Vyukov's bounded queue with a single consumer.
 *
 * One idea: each cell carries the turn at which it may be used next, so producers contend
 * only on `tail`, and a cell passes from producer to consumer and back through its own
 * word.
 *
 * Memory order. Cell i begins with turn i. A producer that claims position p (by moving
 * tail from p to p+1, relaxed: it orders nothing but claims) has seen turn == p, writes
 * the item, and stores turn = p+1 with release. The consumer at position p waits for turn
 * == p+1 with acquire, so it sees the whole item; when it has copied it out it stores
 * turn = p+capacity with release. The producer that claims p+capacity loads that with
 * acquire, so its writes come after the consumer's reads. Turns are 64 bits and never
 * wrap.
 *
 * A producer that stops between claim and store holds up what was claimed after it: the
 * consumer finds nothing, and nobody blocks. Called by: see mpsc.h. */
#include "core/mpsc.h"

#include <string.h>

#include "core/alloc.h"

#define CACHE_LINE_BYTES 64
/* With one cell, "filled at turn p" and "free for turn p + 1" would be the same number.
 */
#define RING_ITEMS_MIN ((size_t)2)
#define RING_ITEMS_MAX ((size_t)1 << 31)

struct cell {
    _Atomic uint64_t turn;
    unsigned char item[];
};

struct mpsc_ring {
    uint64_t capacity; /* a power of two */
    size_t item_bytes, cell_bytes;
    uint64_t head; /* the consumer's */
    _Alignas(CACHE_LINE_BYTES) _Atomic uint64_t tail;
    _Alignas(CACHE_LINE_BYTES) unsigned char cells[];
};

static struct cell *ring_cell(struct mpsc_ring *ring, uint64_t position)
{
    return (struct cell *)(void *)(ring->cells +
                                   (position & (ring->capacity - 1)) * ring->cell_bytes);
}

tryst_status mpsc_ring_open(size_t items_max, size_t item_bytes,
                            struct mpsc_ring **ring_p)
{
    if (items_max == 0 || items_max > RING_ITEMS_MAX || item_bytes == 0 ||
        item_bytes > CACHE_LINE_BYTES * CACHE_LINE_BYTES)
        return TRYST_E_INVALID;
    size_t capacity = RING_ITEMS_MIN;
    while (capacity < items_max)
        capacity *= 2;
    size_t cell_bytes = (sizeof(struct cell) + item_bytes + 7) / 8 * 8;
    struct mpsc_ring *ring =
        mem_alloc_aligned(CACHE_LINE_BYTES, sizeof *ring + capacity * cell_bytes);
    if (!ring)
        return TRYST_E_NOMEM;
    ring->capacity = capacity;
    ring->item_bytes = item_bytes;
    ring->cell_bytes = cell_bytes;
    ring->head = 0;
    atomic_init(&ring->tail, 0);
    for (uint64_t i = 0; i < capacity; i++)
        atomic_init(&ring_cell(ring, i)->turn, i);
    *ring_p = ring;
    return TRYST_OK;
}

void mpsc_ring_close(struct mpsc_ring *ring)
{
    mem_free(ring);
}

/* Claims a position to write to; false when the ring is full. */
static bool ring_claim(struct mpsc_ring *ring, uint64_t *position_p)
{
    uint64_t position = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    for (;;) {
        struct cell *cell = ring_cell(ring, position);
        uint64_t turn = atomic_load_explicit(&cell->turn, memory_order_acquire);
        if (turn < position)
            return false;      /* not yet consumed a round ago */
        if (turn > position) { /* another producer was quicker */
            position = atomic_load_explicit(&ring->tail, memory_order_relaxed);
        } else if (atomic_compare_exchange_weak_explicit(
                       &ring->tail, &position, position + 1, memory_order_relaxed,
                       memory_order_relaxed)) {
            *position_p = position;
            return true;
        }
    }
}

tryst_status mpsc_ring_push(struct mpsc_ring *ring, const void *item)
{
    uint64_t position;
    if (!ring_claim(ring, &position))
        return TRYST_AGAIN;
    struct cell *cell = ring_cell(ring, position);
    memcpy(cell->item, item, ring->item_bytes);
    atomic_store_explicit(&cell->turn, position + 1, memory_order_release);
    return TRYST_OK;
}

bool mpsc_ring_pop(struct mpsc_ring *ring, void *item_p)
{
    struct cell *cell = ring_cell(ring, ring->head);
    uint64_t turn = atomic_load_explicit(&cell->turn, memory_order_acquire);
    if (turn != ring->head + 1)
        return false;
    memcpy(item_p, cell->item, ring->item_bytes);
    atomic_store_explicit(&cell->turn, ring->head + ring->capacity, memory_order_release);
    ring->head++;
    return true;
}

size_t mpsc_ring_capacity(const struct mpsc_ring *ring)
{
    return ring->capacity;
}
