/* SPDX-License-Identifier: Apache-2.0 */
/* Intrusive hash table.
 *
 * One idea: the node lives inside the thing that is found, with its hash, so adding allocates nothing
 * and never fails; the table doubles when it holds as many as it has buckets, and without memory for
 * that its chains just grow longer. Who looks something up walks the nodes of one hash and compares
 * what the hash was made of; where ids were hashed by hash_of_id there is nothing left to compare.
 * Invariant: a node is in the bucket that the lower bits of its hash name. The table points into itself:
 * it stays where it was initialised. No locks: the caller owns the table. Callers: every layer. */
#ifndef TRYST_CORE_HASH_TABLE_H
#define TRYST_CORE_HASH_TABLE_H

#include <stddef.h>
#include <stdint.h>

enum { HASH_TABLE_FIRST = 16 }; /* buckets that need no memory of their own */

struct hash_node {
    struct hash_node *next; /* in its bucket */
    uint64_t hash;
};

struct hash_table {
    struct hash_node **buckets;
    size_t mask; /* buckets - 1, which are a power of two */
    size_t count;
    struct hash_node *first[HASH_TABLE_FIRST];
};

/* Of a number: different for each, and every bit of it counts in the lower half. */
static inline uint64_t hash_of_id(uint64_t id)
{
    uint64_t spread = id * UINT64_C(0x9e3779b97f4a7c15); /* Fibonacci hashing */
    return spread ^ spread >> 32;
}

void hash_table_init(struct hash_table *table);
/* Gives back the buckets; nodes that are still in it are forgotten. */
void hash_table_close(struct hash_table *table);

/* Forgets all nodes, and keeps the buckets for those that come. */
void hash_table_clear(struct hash_table *table);

/* `node` is in no table; nodes of one hash may be many. */
void hash_table_add(struct hash_table *table, struct hash_node *node, uint64_t hash);
/* `node` is in this table. */
void hash_table_remove(struct hash_table *table, struct hash_node *node);

/* The first node of the bucket for `hash`: it, and those behind it, may have other hashes; or NULL. */
static inline struct hash_node *hash_table_bucket(const struct hash_table *table,
                                                  uint64_t hash)
{
    return table->buckets[hash & table->mask];
}

/* The first node with this hash from `node` on, through its bucket, or NULL. */
static inline struct hash_node *hash_node_find(struct hash_node *node, uint64_t hash)
{
    while (node && node->hash != hash)
        node = node->next;
    return node;
}

/* A node with this hash, or NULL. */
static inline struct hash_node *hash_table_find(const struct hash_table *table,
                                                uint64_t hash)
{
    return hash_node_find(hash_table_bucket(table, hash), hash);
}

/* Walks the nodes with this hash, which is evaluated more than once. */
#define hash_table_for_each(table, hash, node)                            \
    for (struct hash_node *node = hash_table_find((table), (hash)); node; \
         node = hash_node_find(node->next, (hash)))

/* The node behind `node` (NULL: the first) in a walk over all, in no order; or NULL. The walk goes on
 * from a node that was not removed, and meets each once if none was added meanwhile. */
struct hash_node *hash_table_next(const struct hash_table *table,
                                  const struct hash_node *node);

#endif
