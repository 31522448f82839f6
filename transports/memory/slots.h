/* SPDX-License-Identifier: Apache-2.0 */
/** @file slots.h
 *  Pinned host memory in pieces, for bytes on their way from or to a device.
 *
 *  Idea: pinning is slow, and unpinning waits for the device, so pinned memory is kept in
 *  free lists by size. Each direction has its own slots, so that receives never wait for
 *  sends.
 *  (Otherwise two ranks could hang, with all slots held by receives that wait for each
 *  other's sends.)
 *
 *  While a gate is closed (closed_gates.h) nothing is pinned: a slot that is missing is
 *  plain memory, until it comes back, and its copies are slower.
 *
 *  Domain: one owner, one thread at a time.
 */
#ifndef TRYST_TRANSPORTS_MEMORY_SLOTS_H
#define TRYST_TRANSPORTS_MEMORY_SLOTS_H

#include "transports/memory/closed_gates.h"
#include "transports/memory/copy.h"

enum { SLOT_CLASSES = 48 };
/** Bytes of the smallest slot: any tensor that is sent inside a frame. */
#define SLOT_SMALL_BYTES 4096u

struct slot {
    void *data;
    size_t bytes;          /**< at least the requested bytes */
    struct tryst_mem *mem; /**< registration of the slot's bytes, or NULL */

    struct list_node node; /**< private: in a free list */
    struct slot_chunk *chunk;
};

struct slots_side {
    struct list free[SLOT_CLASSES];
    struct list chunks;
    uint32_t held[SLOT_CLASSES]; /**< number of slots of each class, free or not */
    uint64_t bytes;              /**< pinned bytes that count against the limit */
};

struct slots {
    struct memory_cache *cache; /**< registers pinned memory; NULL: not registered */
    uint64_t limit_bytes;       /**< limit of one direction */
    /** Nothing is pinned while one of these is closed. slots_init leaves it NULL. */
    struct closed_gates *closed;
    struct slots_side sides[COPY_WAYS];
};

/** Start without slots. Small slots do not count against the limit, and two slots of each
 *  larger size are allowed beyond it. */
void slots_init(struct slots *slots, struct memory_cache *cache, uint64_t limit_bytes);
/** Unpin everything; all slots must have come back. */
void slots_end(struct slots *slots);
/** Get a slot. NULL: the limit is reached and no slot is free, or out of memory. Up to
 *  SLOT_SMALL_BYTES no limit applies, and no larger slot is taken. `memory` must be the
 *  same in all calls. */
struct slot *slots_get(struct slots *slots, const struct memory_ops *memory,
                       int32_t device, enum copy_way way, size_t bytes);
void slots_put(struct slots *slots, enum copy_way way, struct slot *slot);

#endif
