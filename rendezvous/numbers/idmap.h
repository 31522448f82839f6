/* SPDX-License-Identifier: Apache-2.0 */
/** @file idmap.h
 *  64-bit id → pointer, for the ids that travel in records.
 *
 *  Idea: open addressing with linear probing and backward-shift deletion keeps a live id near its
 *  home and leaves no tombstones. Ids are consecutive: four share a cache line, and lines are
 *  hashed, since a removal walks to the end of its cluster.
 *  Invariant: no empty slot lies between an id's home and its place. Load is at most 1/2.
 *  No locks (progress domain). Id 0 is never stored.
 */
#ifndef RENDEZVOUS_NUMBERS_IDMAP_H
#define RENDEZVOUS_NUMBERS_IDMAP_H

#include <stddef.h>
#include <stdint.h>

#include "tryst/status.h"

struct idmap_slot {
    uint64_t id; /**< 0: empty */
    void *value;
};

struct idmap {
    struct idmap_slot *slots; /**< NULL until the first insert */
    size_t mask;
    size_t count;
};

void idmap_init(struct idmap *map);
void idmap_free(struct idmap *map);

/** `id` is not in the map. TRYST_OK, or TRYST_E_NOMEM (nothing changed). */
tryst_status idmap_insert(struct idmap *map, uint64_t id, void *value);
/** NULL when absent. */
void *idmap_find(const struct idmap *map, uint64_t id);
/** Returns what was there, or NULL. */
void *idmap_remove(struct idmap *map, uint64_t id);

#endif
