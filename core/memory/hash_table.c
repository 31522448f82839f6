/* SPDX-License-Identifier: Apache-2.0 */
/* Intrusive hash table; see hash_table.h. */
#include "core/memory/hash_table.h"

#include <string.h>

#include "core/memory/alloc.h"

void hash_table_init(struct hash_table *table)
{
    memset(table, 0, sizeof *table);
    table->buckets = table->first;
    table->mask = HASH_TABLE_FIRST - 1;
}

void hash_table_close(struct hash_table *table)
{
    if (table->buckets != table->first)
        mem_free(table->buckets);
    hash_table_init(table);
}

void hash_table_clear(struct hash_table *table)
{
    memset(table->buckets, 0, (table->mask + 1) * sizeof *table->buckets);
    table->count = 0;
}

static struct hash_node **place_of(struct hash_table *table, uint64_t hash)
{
    return &table->buckets[hash & table->mask];
}

static void put(struct hash_table *table, struct hash_node *node)
{
    struct hash_node **place = place_of(table, node->hash);
    node->next = *place;
    *place = node;
}

static void grow(struct hash_table *table)
{
    struct hash_node **old = table->buckets;
    size_t old_mask = table->mask;
    struct hash_node **buckets =
        mem_zalloc_array(2 * (old_mask + 1), sizeof(struct hash_node *));
    if (!buckets)
        return;
    table->buckets = buckets;
    table->mask = 2 * old_mask + 1;
    for (size_t i = 0; i <= old_mask; i++)
        for (struct hash_node *node = old[i], *next; node; node = next) {
            next = node->next;
            put(table, node);
        }
    if (old != table->first)
        mem_free(old);
}

void hash_table_add(struct hash_table *table, struct hash_node *node, uint64_t hash)
{
    if (table->count++ > table->mask)
        grow(table);
    node->hash = hash;
    put(table, node);
}

void hash_table_remove(struct hash_table *table, struct hash_node *node)
{
    struct hash_node **place = place_of(table, node->hash);
    while (*place != node)
        place = &(*place)->next;
    *place = node->next;
    table->count--;
}

struct hash_node *hash_table_next(const struct hash_table *table,
                                  const struct hash_node *node)
{
    size_t at = 0;
    if (node && node->next)
        return node->next;
    if (node)
        at = (node->hash & table->mask) + 1;
    while (at <= table->mask && !table->buckets[at])
        at++;
    return at <= table->mask ? table->buckets[at] : NULL;
}
