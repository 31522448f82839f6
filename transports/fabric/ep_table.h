/* SPDX-License-Identifier: Apache-2.0 */
/** @file ep_table.h
 *  A rail's table of endpoints, for modules that put the id of the receiving endpoint
 *  into messages and tags.
 *
 *  Idea: an id is a slot of this table in its low 16 bits and 48 random bits above, so a
 *  lookup is one access, and an id that was never given, or has ended, finds nothing.
 *  Compiled into each module.
 *  Invariant: the table is at most half full until it has its greatest size. Slots are
 *  taken in turn, so a freed slot is reused late. The random bits are a secret of the
 *  pair: without random bytes no id is given.
 */
#ifndef TRYST_TRANSPORTS_FABRIC_EP_TABLE_H
#define TRYST_TRANSPORTS_FABRIC_EP_TABLE_H

#include <stdint.h>
#include <string.h>

#include "transports/module.h"

struct ep_table {
    struct ep_table_slot {
        uint64_t id;
        void *ep; /**< NULL: free */
    } * slots;
    /** Number of slots, number of slots with an endpoint, and the slot (modulo count)
     *  that the next addition tries first. */
    uint32_t count, used, next;
    uint32_t most; /**< limit of `used` */
};

static inline uint32_t ep_table_slot_of(uint64_t id)
{
    return (uint32_t)(id & 0xffff);
}

/** Start an empty table. `most` is a power of two less one, at most 65535. */
static inline void ep_table_init(struct ep_table *table, uint32_t most)
{
    *table = (struct ep_table){.most = most};
}

static inline void ep_table_end(struct ep_table *table, const struct tryst_host *host)
{
    host->free(table->slots);
    table->slots = NULL;
}

/** Get the endpoint in `slot`, which may be any number. NULL: there is none. */
static inline void *ep_table_at(const struct ep_table *table, uint32_t slot)
{
    return slot < table->count ? table->slots[slot].ep : NULL;
}

/** Get the endpoint that has `id`, or NULL. */
static inline void *ep_table_find(const struct ep_table *table, uint64_t id)
{
    void *ep = ep_table_at(table, ep_table_slot_of(id));
    return ep && table->slots[ep_table_slot_of(id)].id == id ? ep : NULL;
}

static inline tryst_status ep_table_grow(struct ep_table *table,
                                         const struct tryst_host *host)
{
    uint32_t count = table->count ? table->count : 64;
    while (count < table->most + 1 && count < 2 * (table->used + 1))
        count *= 2;
    if (count == table->count)
        return table->used < count - 1 ? TRYST_OK : TRYST_E_NOMEM;
    struct ep_table_slot *slots = host->alloc(count * sizeof *slots);
    if (!slots)
        return TRYST_E_NOMEM;
    if (table->count)
        memcpy(slots, table->slots, table->count * sizeof *slots);
    host->free(table->slots);
    table->slots = slots;
    table->count = count;
    return TRYST_OK;
}

/** Add `ep` and give it an id. TRYST_OK, TRYST_E_SYSTEM (errno: there are no random
 *  bytes), TRYST_E_NOMEM (out of memory, or there are `most` endpoints). */
static inline tryst_status ep_table_add(struct ep_table *table,
                                        const struct tryst_host *host, void *ep,
                                        uint64_t *id_p)
{
    uint64_t secret;
    if (host->random_secret(&secret, sizeof secret) != TRYST_OK)
        return TRYST_E_SYSTEM;
    if (!table->count) /* start at a random slot, by bits that no id contains */
        table->next = (uint32_t)(secret & 0xffff);
    if (ep_table_grow(table, host) != TRYST_OK)
        return TRYST_E_NOMEM;
    uint32_t slot = table->next % table->count;
    while (table->slots[slot].ep)
        slot = (slot + 1) % table->count;
    table->next = slot + 1;
    table->used++;
    *id_p = (secret & ~(uint64_t)0xffff) | slot;
    table->slots[slot] = (struct ep_table_slot){*id_p, ep};
    return TRYST_OK;
}

static inline void ep_table_remove(struct ep_table *table, uint64_t id)
{
    table->slots[ep_table_slot_of(id)].ep = NULL;
    table->used--;
}

#endif
