/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of a step: key entries; see table.h.
 *
 * Idea: a hash table per step; the hash selects the bucket, the whole key decides.
 */
#include "table.h"

#include <assert.h>
#include <string.h>

#include "names.h"
#include "rendezvous/bootstrap/roster/roster.h"

static bool queue_is_empty(const struct queue *queue)
{
    return !queue_next(queue, NULL);
}

static void entry_free(struct entry *entry)
{
    assert(queue_is_empty(&entry->sends) && queue_is_empty(&entry->recvs));
    assert(list_empty(&entry->wants) && queue_is_empty(&entry->unexpected));
    if (entry->name)
        entry->name->entry = NULL;
    prepared_refs_drop(entry->key, 1 + entry->keys_ahead);
    pool_put(entry->scope->scopes->entries, entry);
}

static struct entry *entry_of(struct hash_node *node)
{
    return container_of(node, struct entry, node);
}

struct entry *entry_next(const struct scope *scope, const struct entry *entry)
{
    struct hash_node *next =
        hash_table_next(&scope->entries, entry ? &entry->node : NULL);
    return next ? entry_of(next) : NULL;
}

void scope_entries_free(struct scope *scope)
{
    for (struct entry *entry = entry_next(scope, NULL), *next; entry; entry = next) {
        next = entry_next(scope, entry);
        entry_free(entry);
    }
    hash_table_clear(&scope->entries);
}

struct entry *entry_find(struct scope *scope, uint64_t hash, const char *key,
                         size_t key_bytes)
{
    hash_table_for_each (&scope->entries, hash, node) {
        struct entry *entry = entry_of(node);
        if (entry->key->bytes == key_bytes &&
            memcmp(entry->key->string, key, key_bytes) == 0)
            return entry;
    }
    return NULL;
}

struct entry *entry_hashed(struct scope *scope, uint64_t hash, int32_t src_rank)
{
    hash_table_for_each (&scope->entries, hash, node)
        if (entry_of(node)->key->src_rank == src_rank)
            return entry_of(node);
    return NULL;
}

/* Make the entry of a key that has none. NULL: no memory. */
static struct entry *entry_open(struct scope *scope, tryst_key *key)
{
    struct entry *entry = pool_get(scope->scopes->entries);
    if (!entry)
        return NULL;
    memset(entry, 0, sizeof *entry);
    entry->scope = scope;
    entry->key = prepared_ref(key);
    queue_init(&entry->sends);
    queue_init(&entry->recvs);
    list_init(&entry->wants);
    queue_init(&entry->unexpected);
    hash_table_add(&scope->entries, &entry->node, key->table_hash);
    return entry;
}

struct entry *entry_known(struct scope *scope, const tryst_key *key)
{
    hash_table_for_each (&scope->entries, key->table_hash, node)
        if (entry_of(node)->key == key)
            return entry_of(node);
    return entry_find(scope, key->table_hash, key->string, key->bytes);
}

__attribute__((noinline)) static struct entry *entry_get_named(struct scope *scope,
                                                               tryst_key *key)
{
    struct entry *entry = entry_known(scope, key);
    return entry ? entry : entry_open(scope, key);
}

struct entry *entry_get(struct scope *scope, tryst_key *key)
{
    struct hash_node *node = hash_table_bucket(&scope->entries, key->table_hash);
    /* The usual case: a prepared key, or a string that came before. */
    bool same = node && entry_of(node)->key == key;
    return __builtin_expect(same, 1) ? entry_of(node) : entry_get_named(scope, key);
}

static tryst_status record_key_check(const struct roster *roster, const tryst_key *key,
                                     const struct record_key *named)
{
    if (key->src_rank != named->src_rank || key->dst_rank != named->dst_rank)
        return TRYST_E_KEY;
    bool ours = key->src_rank == roster->rank;
    bool current = key->src_incarnation == roster->ranks[key->src_rank].incarnation;
    return ours && !current ? TRYST_E_INCARNATION : TRYST_OK;
}

tryst_status record_key_open(struct scopes *scopes, const struct roster *roster,
                             const struct record_key *named, bool keep, tryst_key **key_p)
{
    tryst_status status = TRYST_OK;
    tryst_key *key = keys_find(&scopes->keys, named->string, named->bytes, named->hash);
    bool found = key;
    if (!found)
        status = prepared_open(roster, named->string, named->bytes, NULL, &key);
    if (status != TRYST_OK)
        return status;
    status = record_key_check(roster, key, named);
    if (status != TRYST_OK) {
        prepared_unref(key);
        return status;
    }
    if (!found && keep)
        keys_keep(&scopes->keys, key);
    *key_p = key;
    return TRYST_OK;
}

struct entry *entry_resolve(struct scope *scope, const struct roster *roster,
                            const struct record_key *named, bool may_make,
                            tryst_status *status_p)
{
    struct entry *entry = entry_find(scope, named->hash, named->string, named->bytes);
    tryst_key *key;
    if (entry) {
        *status_p = record_key_check(roster, entry->key, named);
        return *status_p == TRYST_OK ? entry : NULL;
    }
    *status_p = record_key_open(scope->scopes, roster, named, may_make, &key);
    if (*status_p == TRYST_OK) {
        entry = may_make ? entry_get(scope, key) : NULL;
        *status_p = entry ? TRYST_OK : TRYST_E_NOMEM;
        prepared_unref(key);
    }
    return entry;
}
