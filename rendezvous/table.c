/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rendezvous table: key entries and their ordered queues; see table.h. (Steps: scopes.c.)
 *
 * Idea: a chained hash table per step that doubles when it is full; the hash selects the bucket,
 * the whole key decides. Queues are searched from the end where the next number usually goes.
 * Callers: producer.c, consumer.c, step.c, records.c.
 */
#include "table.h"

#include <assert.h>
#include <string.h>

#include "core/alloc.h"
#include "engine.h"
#include "names.h"
#include "peer.h"

/* ---- entries ------------------------------------------------------------------------------ */

static void entry_free(struct entry *entry)
{
    struct list_node *node;
    while ((node = list_first(&entry->wants)) != NULL)
        want_free(container_of(node, struct want, node));
    while ((node = list_first(&entry->early)) != NULL)
        early_free(container_of(node, struct early, node));
    list_remove(&entry->recv_cursor);
    if (entry->name)
        entry->name->entry = NULL;
    assert(list_empty(&entry->sends) && list_empty(&entry->recvs));
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
    list_init(&entry->sends);
    list_init(&entry->recvs);
    list_push_back(&entry->recvs, &entry->recv_cursor);
    list_init(&entry->wants);
    list_init(&entry->early);
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

static tryst_status record_key_check(const struct rendezvous *rdv, const tryst_key *key,
                                     const struct record_key *named)
{
    const struct roster *roster = &rdv->group->roster;
    if (key->src_rank != named->src_rank || key->dst_rank != named->dst_rank)
        return TRYST_E_KEY;
    bool ours = key->src_rank == roster->rank;
    bool current = key->src_incarnation == roster->entries[key->src_rank].incarnation;
    return ours && !current ? TRYST_E_INCARNATION : TRYST_OK;
}

struct entry *entry_take(struct scope *scope, const struct record_key *named,
                         bool may_make, tryst_status *status_p)
{
    struct entry *entry = entry_find(scope, named->hash, named->string, named->bytes);
    tryst_key *key;
    if (entry) {
        *status_p = record_key_check(scope->rdv, entry->key, named);
        return *status_p == TRYST_OK ? entry : NULL;
    }
    *status_p = prepared_open(scope->rdv->group, named->string, named->bytes, &key);
    if (*status_p != TRYST_OK)
        return NULL;
    *status_p = record_key_check(scope->rdv, key, named);
    if (*status_p == TRYST_OK) {
        entry = may_make ? entry_get(scope, key) : NULL;
        *status_p = entry ? TRYST_OK : TRYST_E_NOMEM;
    }
    prepared_unref(key);
    return entry;
}

/* ---- queues ------------------------------------------------------------------------------- */

#define QUEUE_FIND(list_, type, member, wanted)        \
    list_for_each_safe (list_, node, after) {          \
        type *item = container_of(node, type, member); \
        if (item->seq == (wanted))                     \
            return item;                               \
        if (item->seq > (wanted))                      \
            break;                                     \
    }                                                  \
    return NULL

tryst_op *entry_send_find(struct entry *entry, uint64_t seq)
{
    QUEUE_FIND(&entry->sends, tryst_op, queue_node, seq);
}

static uint64_t recv_seq(const struct list_node *node)
{
    return container_of(node, tryst_op, queue_node)->seq;
}

/* Tensors come nearly in order while thousands of receives may wait: the cursor, a node of the list
 * that is nobody's, stays where the last one was, also when that one leaves. */
tryst_op *entry_recv_find(struct entry *entry, uint64_t seq)
{
    struct list_node *head = &entry->recvs.head, *cursor = &entry->recv_cursor;
    struct list_node *place = cursor->next;
    while (place != head && recv_seq(place) < seq)
        place = place->next;
    if (place == cursor->next)
        for (struct list_node *before = cursor->prev;
             before != head && recv_seq(before) >= seq; before = before->prev)
            place = before;
    if (place != cursor->next) {
        list_remove(cursor);
        list_insert_before(place, cursor);
    }
    return place != head && recv_seq(place) == seq
               ? container_of(place, tryst_op, queue_node)
               : NULL;
}

struct want *entry_want_find(struct entry *entry, uint64_t seq)
{
    QUEUE_FIND(&entry->wants, struct want, node, seq);
}

struct early *entry_early_find(struct entry *entry, uint64_t seq)
{
    QUEUE_FIND(&entry->early, struct early, node, seq);
}

/** Insert from the back: new numbers are almost always the largest. */
#define QUEUE_INSERT(list_, type, member, item_)                      \
    do {                                                              \
        struct list_node *place = (list_)->head.prev;                 \
        while (place != &(list_)->head &&                             \
               container_of(place, type, member)->seq > (item_)->seq) \
            place = place->prev;                                      \
        list_insert_before(place->next, &(item_)->member);            \
    } while (0)

void entry_want_insert(struct entry *entry, struct want *want)
{
    QUEUE_INSERT(&entry->wants, struct want, node, want);
}

void entry_early_insert(struct entry *entry, struct early *early)
{
    QUEUE_INSERT(&entry->early, struct early, node, early);
}

void entry_send_insert(struct entry *entry, tryst_op *op)
{
    QUEUE_INSERT(&entry->sends, tryst_op, queue_node, op);
}

/* ---- what peers have parked here ---------------------------------------------------------- */

void want_unpark(struct want *want)
{
    if (list_remove(&want->node))
        want->peer->parked_count--;
    if (want->early)
        want->peer->early_wants--;
    want->early = false;
}

void want_free(struct want *want)
{
    struct peer *peer = want->peer;
    want_unpark(want);
    list_remove(&want->answer_node);
    list_remove(&want->peer_node);
    if (!want->answered)
        idmap_remove(&peer->wants, want->id);
    pool_put(peer->rdv->wants, want);
}

void want_maybe_free(struct want *want)
{
    if (!want->send && !want->in_flight && !list_linked(&want->answer_node) &&
        !list_linked(&want->node))
        want_free(want);
}

void want_answer(struct want *want, uint8_t type, tryst_status status,
                 int32_t origin_rank)
{
    if (want->answered || list_linked(&want->answer_node))
        return;
    want->answer = type;
    want->status = status;
    want->origin_rank = origin_rank;
    list_push_back(&want->peer->want_answers, &want->answer_node);
    peer_flush_later(want->peer);
}

void early_free(struct early *early)
{
    early->peer->early_bytes -= EAGER_OVERHEAD_BYTES + early->bytes;
    list_remove(&early->node);
    list_remove(&early->peer_node);
    mem_free(early);
}
