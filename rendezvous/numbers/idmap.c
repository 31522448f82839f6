/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 64-bit id → pointer by open addressing; see idmap.h for the idea and the invariant.
 * Callers: producer.c and consumer.c, once per announced receive.
 */
#include "rendezvous/numbers/idmap.h"

#include "core/alloc.h"

enum { IDMAP_SLOTS_MIN = 64 };

void idmap_init(struct idmap *map)
{
    *map = (struct idmap){0};
}

void idmap_free(struct idmap *map)
{
    mem_free(map->slots);
    idmap_init(map);
}

/** Where the search for `id` begins. Ids come one after the other: four neighbours share a cache line,
 *  and lines are spread, or all would be one cluster, which each removal walks through. */
static size_t slot_home(uint64_t id, size_t mask)
{
    uint64_t line = (id >> 2) * 0x9E3779B97F4A7C15ull; /* Fibonacci hashing */
    return ((size_t)(line >> 32) << 2 | (id & 3)) & mask;
}

static void slot_place(struct idmap_slot *slots, size_t mask, uint64_t id, void *value)
{
    size_t at = slot_home(id, mask);
    while (slots[at].id)
        at = (at + 1) & mask;
    slots[at] = (struct idmap_slot){id, value};
}

static tryst_status idmap_grow(struct idmap *map)
{
    size_t old_slots = map->slots ? map->mask + 1 : 0;
    size_t new_slots = old_slots ? 2 * old_slots : IDMAP_SLOTS_MIN;
    struct idmap_slot *slots = mem_zalloc(new_slots * sizeof *slots);
    if (!slots)
        return TRYST_E_NOMEM;
    for (size_t i = 0; i < old_slots; i++)
        if (map->slots[i].id)
            slot_place(slots, new_slots - 1, map->slots[i].id, map->slots[i].value);
    mem_free(map->slots);
    map->slots = slots;
    map->mask = new_slots - 1;
    return TRYST_OK;
}

tryst_status idmap_insert(struct idmap *map, uint64_t id, void *value)
{
    if (!map->slots || 2 * (map->count + 1) > map->mask + 1) {
        tryst_status status = idmap_grow(map);
        if (status != TRYST_OK)
            return status;
    }
    slot_place(map->slots, map->mask, id, value);
    map->count++;
    return TRYST_OK;
}

/** The slot that holds `id`, or an empty one. */
static size_t slot_find(const struct idmap *map, uint64_t id)
{
    size_t at = slot_home(id, map->mask);
    while (map->slots[at].id && map->slots[at].id != id)
        at = (at + 1) & map->mask;
    return at;
}

void *idmap_find(const struct idmap *map, uint64_t id)
{
    if (!map->slots || !id)
        return NULL;
    return map->slots[slot_find(map, id)].value;
}

void *idmap_remove(struct idmap *map, uint64_t id)
{
    if (!map->slots || !id)
        return NULL;
    size_t hole = slot_find(map, id);
    void *value = map->slots[hole].value;
    if (!value)
        return NULL;
    /* Pull back whoever would no longer be found across the hole. */
    for (size_t at = (hole + 1) & map->mask; map->slots[at].id;
         at = (at + 1) & map->mask) {
        size_t home = slot_home(map->slots[at].id, map->mask);
        if (((at - home) & map->mask) >= ((at - hole) & map->mask)) {
            map->slots[hole] = map->slots[at];
            hole = at;
        }
    }
    map->slots[hole] = (struct idmap_slot){0};
    map->count--;
    return value;
}
