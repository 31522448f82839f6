/* SPDX-License-Identifier: Apache-2.0 */
/* Intrusive hash table.
 *
 * One idea: the node, with its hash, is a member of the object that is found, so adding
 * allocates nothing and never fails. The table doubles when it holds more nodes than
 * buckets; without memory for that, its chains only grow longer. The caller walks the
 * nodes of one hash and compares the keys that were hashed; hash_of_id gives each id a
 * hash of its own, so ids need no comparison. Invariant: the lower bits of a node's hash
 * are the index of its bucket. A table has a pointer into itself, so it must not be moved
 * after hash_table_init. No locks: the caller owns the table. */
#ifndef TRYST_CORE_MEMORY_HASH_TABLE_H
#define TRYST_CORE_MEMORY_HASH_TABLE_H

#include <stddef.h>
#include <stdint.h>

/** buckets inside struct hash_table, without an allocation */
enum { HASH_TABLE_FIRST = 16 };

struct hash_node {
    struct hash_node *next; /**< next node of the bucket */
    uint64_t hash;
};

struct hash_table {
    struct hash_node **buckets;
    size_t mask; /**< number of buckets, a power of two, minus 1 */
    size_t count;
    struct hash_node *first[HASH_TABLE_FIRST];
};

/** Hash an id: different ids have different hashes, and every bit of the id affects the
 *  lower half of the hash. */
static inline uint64_t hash_of_id(uint64_t id)
{
    uint64_t spread = id * UINT64_C(0x9e3779b97f4a7c15); /* Fibonacci hashing */
    return spread ^ spread >> 32;
}

void hash_table_init(struct hash_table *table);
/** Free the buckets; nodes that are still in the table stay untouched. */
void hash_table_close(struct hash_table *table);

/** Remove all nodes without touching them, and keep the buckets for later nodes. */
void hash_table_clear(struct hash_table *table);

/** Add `node`, which is in no table; several nodes may have one hash. */
void hash_table_add(struct hash_table *table, struct hash_node *node, uint64_t hash);
/** Remove `node`, which is in this table. */
void hash_table_remove(struct hash_table *table, struct hash_node *node);

/** Return the first node of the bucket for `hash`, or NULL. The nodes of a bucket may
 *  have other hashes. */
static inline struct hash_node *hash_table_bucket(const struct hash_table *table,
                                                  uint64_t hash)
{
    return table->buckets[hash & table->mask];
}

/** Find the first node with this hash from `node` on, in the bucket of `node`, or
 *  NULL. */
static inline struct hash_node *hash_node_find(struct hash_node *node, uint64_t hash)
{
    while (node && node->hash != hash)
        node = node->next;
    return node;
}

/** Find a node with this hash, or NULL. */
static inline struct hash_node *hash_table_find(const struct hash_table *table,
                                                uint64_t hash)
{
    return hash_node_find(hash_table_bucket(table, hash), hash);
}

/** Walk the nodes with this hash. `hash` is evaluated more than once. */
#define hash_table_for_each(table, hash, node)                            \
    for (struct hash_node *node = hash_table_find((table), (hash)); node; \
         node = hash_node_find(node->next, (hash)))

/** Return the node after `node` (NULL: the first) in a walk over all nodes, in no
 *  particular order, or NULL. `node` must still be in the table; the walk meets each node
 *  once if none is added meanwhile. */
struct hash_node *hash_table_next(const struct hash_table *table,
                                  const struct hash_node *node);

#endif
