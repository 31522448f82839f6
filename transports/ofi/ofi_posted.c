/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The receives that a peer has announced: tag → room.
 *
 * Idea: chained buckets over one array that grows. A peer announces at most
 * OFI_POSTED_MAX receives at once, so the array is bounded. A removed entry goes to the
 * free chain.
 * Invariant: every index below `count` is in exactly one chain, its bucket's or the free
 * one.
 */
#include "ofi_posted.h"

#include <string.h>

static uint32_t *bucket_of(struct ofi_posted_table *table, uint64_t tag)
{
    /* tags count up: Fibonacci hashing spreads neighbouring tags */
    return &table->buckets[(tag * 0x9e3779b97f4a7c15u) >> 57];
}
_Static_assert(OFI_BUCKETS == 1 << (64 - 57), "the shift takes as many bits");

static tryst_status grow(const struct tryst_host *host, struct ofi_posted_table *table)
{
    uint32_t capacity = table->capacity ? 2 * table->capacity : 32;
    struct ofi_posted *entries;
    if (capacity > OFI_POSTED_MAX)
        return TRYST_E_PROTOCOL;
    entries = host->alloc(capacity * sizeof *entries);
    if (!entries)
        return TRYST_E_NOMEM;
    if (table->count)
        memcpy(entries, table->entries, table->count * sizeof *entries);
    host->free(table->entries);
    table->entries = entries;
    table->capacity = capacity;
    return TRYST_OK;
}

tryst_status ofi_posted_add(const struct tryst_host *host, struct ofi_posted_table *table,
                            uint64_t tag, uint64_t room)
{
    uint32_t *bucket = bucket_of(table, tag);
    uint32_t index = table->free;
    if (index) {
        table->free = table->entries[index - 1].next;
    } else {
        tryst_status status =
            table->count < table->capacity ? TRYST_OK : grow(host, table);
        if (status != TRYST_OK)
            return status;
        index = ++table->count;
    }
    table->entries[index - 1] =
        (struct ofi_posted){.tag = tag, .room = room, .next = *bucket};
    *bucket = index;
    return TRYST_OK;
}

bool ofi_posted_remove(struct ofi_posted_table *table, uint64_t tag, uint64_t *room_p)
{
    for (uint32_t *at = bucket_of(table, tag); *at; at = &table->entries[*at - 1].next) {
        uint32_t index = *at;
        struct ofi_posted *entry = &table->entries[index - 1];
        if (entry->tag != tag)
            continue;
        *room_p = entry->room;
        *at = entry->next;
        entry->next = table->free;
        table->free = index;
        return true;
    }
    return false;
}

void ofi_posted_free(const struct tryst_host *host, struct ofi_posted_table *table)
{
    host->free(table->entries);
    memset(table, 0, sizeof *table);
}
