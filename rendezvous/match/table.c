/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of a step: key entries; see table.h.
 *
 * Idea: a chained hash table per step that doubles when it is full; the hash selects the bucket,
 * the whole key decides.
 * Callers: submit.c, producer.c, consumer.c, eager.c.
 */
#include "table.h"

#include <assert.h>
#include <string.h>

#include "core/alloc.h"
#include "names.h"
#include "rendezvous/bootstrap/roster.h"

static bool queue_is_empty(const struct queue *queue)
{
    return !queue_next(queue, NULL);
}

static void entry_free(struct entry *entry)
{
    assert(queue_is_empty(&entry->sends) && queue_is_empty(&entry->recvs));
    assert(queue_is_empty(&entry->wants) && queue_is_empty(&entry->unexpected));
    if (entry->name)
        entry->name->entry = NULL;
    prepared_unref(entry->key);
    mem_free(entry);
}

void scope_entries_free(struct scope *scope)
{
    for (size_t i = 0; i < scope->buckets_count; i++) {
        while (scope->buckets[i]) {
            struct entry *entry = scope->buckets[i];
            scope->buckets[i] = entry->next;
            entry_free(entry);
        }
    }
}

static struct entry **bucket_of(const struct scope *scope, uint64_t hash)
{
    return &scope->buckets[hash & (scope->buckets_count - 1)];
}

struct entry *entry_find(struct scope *scope, uint64_t hash, const char *key,
                         size_t key_bytes)
{
    struct entry *entry = *bucket_of(scope, hash);
    while (entry && (entry->key->hash != hash || entry->key->bytes != key_bytes ||
                     memcmp(entry->key->string, key, key_bytes) != 0))
        entry = entry->next;
    return entry;
}

struct entry *entry_hashed(struct scope *scope, uint64_t hash, int32_t src_rank)
{
    struct entry *entry = *bucket_of(scope, hash);
    while (entry && (entry->key->hash != hash || entry->key->src_rank != src_rank))
        entry = entry->next;
    return entry;
}

/** Twice the buckets; without memory the chains just grow longer. */
static void scope_grow(struct scope *scope)
{
    size_t old_count = scope->buckets_count;
    struct entry **old = scope->buckets;
    struct entry **buckets = mem_zalloc(2 * old_count * sizeof *buckets);
    if (!buckets)
        return;
    scope->buckets = buckets;
    scope->buckets_count = 2 * old_count;
    for (size_t i = 0; i < old_count; i++) {
        while (old[i]) {
            struct entry *entry = old[i];
            old[i] = entry->next;
            struct entry **bucket = bucket_of(scope, entry->key->hash);
            entry->next = *bucket;
            *bucket = entry;
        }
    }
    mem_free(old);
}

/** An entry of a key that has none, or NULL. */
static struct entry *entry_open(struct scope *scope, tryst_key *key)
{
    struct entry *entry = mem_zalloc(sizeof *entry);
    if (!entry)
        return NULL;
    entry->scope = scope;
    entry->key = prepared_ref(key);
    queue_init(&entry->sends);
    queue_init(&entry->recvs);
    queue_init(&entry->wants);
    queue_init(&entry->unexpected);
    if (++scope->entries_count > scope->buckets_count)
        scope_grow(scope);
    struct entry **bucket = bucket_of(scope, key->hash);
    entry->next = *bucket;
    *bucket = entry;
    return entry;
}

__attribute__((noinline)) static struct entry *entry_get_named(struct scope *scope,
                                                               tryst_key *key)
{
    struct entry *entry = entry_find(scope, key->hash, key->string, key->bytes);
    return entry ? entry : entry_open(scope, key);
}

struct entry *entry_get(struct scope *scope, tryst_key *key)
{
    struct entry *entry = *bucket_of(scope, key->hash);
    bool same = entry && entry->key == key; /* as where the caller prepared it */
    return __builtin_expect(same, 1) ? entry : entry_get_named(scope, key);
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

struct entry *entry_take(struct scope *scope, const struct roster *roster,
                         const struct record_key *named, bool may_make,
                         tryst_status *status_p)
{
    struct entry *entry = entry_find(scope, named->hash, named->string, named->bytes);
    tryst_key *key;
    if (entry) {
        *status_p = record_key_check(roster, entry->key, named);
        return *status_p == TRYST_OK ? entry : NULL;
    }
    *status_p = prepared_open(roster, named->string, named->bytes, &key);
    if (*status_p != TRYST_OK)
        return NULL;
    *status_p = record_key_check(roster, key, named);
    if (*status_p == TRYST_OK) {
        entry = may_make ? entry_get(scope, key) : NULL;
        *status_p = entry ? TRYST_OK : TRYST_E_NOMEM;
    }
    prepared_unref(key);
    return entry;
}
