/* SPDX-License-Identifier: Apache-2.0 */
/* Parked WANTs by entry and number; see parked.h. */
#include "parked.h"

#include "core/text/hash.h"
#include "table.h"

static uint64_t parked_hash(const struct entry *entry, uint64_t seq)
{
    return hash_keyed_id(hash_keyed_id(seq) ^ (uintptr_t)entry);
}

static struct hash_table *table_of(const struct entry *entry)
{
    return &entry->scope->scopes->parked;
}

void parked_add(struct parked *parked)
{
    list_push_back(&parked->entry->wants, &parked->node);
    hash_table_add(table_of(parked->entry), &parked->by_number,
                   parked_hash(parked->entry, parked->seq));
}

bool parked_remove(struct parked *parked)
{
    if (!list_remove(&parked->node))
        return false;
    hash_table_remove(table_of(parked->entry), &parked->by_number);
    return true;
}

struct parked *parked_find(const struct entry *entry, uint64_t seq)
{
    hash_table_for_each (table_of(entry), parked_hash(entry, seq), node) {
        struct parked *parked = container_of(node, struct parked, by_number);
        if (parked->entry == entry && parked->seq == seq)
            return parked;
    }
    return NULL;
}
