/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps by id; see scopes.h.
 *
 * Invariants: a step is in scopes->all and in the index, and while it is EARLY in
 * scopes->early. The memory that peers can make this rank hold for steps that are not
 * open here is bounded for each peer by itself: WANTs by early_max, DATA by eager credit,
 * aborts by EARLY_ABORTS_MAX and PASSED_ABORTS_MAX. An early step that holds none of
 * these is dropped. So no peer takes the place of another.
 */
#include <assert.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/text/hash.h"
#include "scopes.h"
#include "table.h"

/* ---- memory ------------------------------------------------------------------------ */

/* Take the memory of a freed scope; NULL: none is spare. */
static struct scope *spare_scope_get(struct scopes *scopes)
{
    for (int i = 0; i < SCOPES_SPARE; i++) {
        /* relaxed: a check before the exchange. acquire: partner of spare_scope_put. */
        if (!atomic_load_explicit(&scopes->spare[i], memory_order_relaxed))
            continue;
        struct scope *scope =
            atomic_exchange_explicit(&scopes->spare[i], NULL, memory_order_acquire);
        if (scope)
            return scope;
    }
    return NULL;
}

/* Keep the memory of a scope for a later one. False: all places are taken. */
static bool spare_scope_put(struct scopes *scopes, struct scope *scope)
{
    for (int i = 0; i < SCOPES_SPARE; i++) {
        struct scope *none = NULL;
        /* release: partner of spare_scope_get. */
        if (atomic_compare_exchange_strong_explicit(&scopes->spare[i], &none, scope,
                                                    memory_order_release,
                                                    memory_order_relaxed))
            return true;
    }
    return false;
}

static void scope_memory_free(struct scope *scope)
{
    hash_table_close(&scope->entries);
    mem_free(scope->askers.words);
    mem_free(scope->awaited.words);
    mem_free(scope);
}

static struct scope *scope_memory(struct scopes *scopes)
{
    enum { KEPT = offsetof(struct scope, node) };
    struct scope *scope = spare_scope_get(scopes);
    if (scope) {
        memset((char *)scope + KEPT, 0, sizeof *scope - KEPT);
        scope->askers.used = scope->awaited.used = false;
        return scope;
    }
    scope = mem_zalloc(sizeof *scope);
    if (scope)
        hash_table_init(&scope->entries);
    return scope;
}

tryst_status scope_open(struct scopes *scopes, uint64_t id, struct scope **scope_p)
{
    struct scope *scope = scope_memory(scopes);
    if (!scope)
        return TRYST_E_NOMEM;
    scope->scopes = scopes;
    scope->id = id;
    scope->state = SCOPE_EARLY;
    scope->early_from = scope->abort_from = scope->abort_rank = -1;
    list_init(&scope->ops);
    list_init(&scope->warned);
    *scope_p = scope;
    return TRYST_OK;
}

/* ---- the index --------------------------------------------------------------------- */

tryst_status scopes_init(struct scopes *scopes)
{
    list_init(&scopes->all);
    list_init(&scopes->early);
    list_init(&scopes->reap);
    list_init(&scopes->aborted);
    list_init(&scopes->reported);
    hash_table_init(&scopes->index);
    hash_table_init(&scopes->parked);
    keys_init(&scopes->keys);
    for (int i = 0; i < SCOPES_SPARE; i++)
        atomic_init(&scopes->spare[i], NULL);
    return pool_open(sizeof(struct entry), _Alignof(struct entry), &scopes->entries);
}

void scopes_close(struct scopes *scopes)
{
    assert(list_empty(&scopes->all));
    hash_table_close(&scopes->index);
    hash_table_close(&scopes->parked);
    for (struct scope *scope; (scope = spare_scope_get(scopes)) != NULL;)
        scope_memory_free(scope);
    keys_close(&scopes->keys);
    pool_close(scopes->entries);
    scopes->entries = NULL;
}

bool scope_was_skipped(const struct scopes *scopes, uint64_t id)
{
    uint64_t kept =
        scopes->opened < STEPS_OPENED_KEPT ? scopes->opened : STEPS_OPENED_KEPT;
    for (uint64_t i = 1; i <= kept; i++) {
        uint64_t opened = scopes->opened_ids[(scopes->opened - i) % STEPS_OPENED_KEPT];
        if (opened <= id)
            return opened < id;
    }
    return scopes->opened && scopes->opened == kept;
}

void scope_add(struct scope *scope)
{
    struct scopes *scopes = scope->scopes;
    list_push_back(&scopes->all, &scope->node);
    if (scope->state == SCOPE_EARLY)
        list_push_back(&scopes->early, &scope->early_node);
    hash_table_add(&scopes->index, &scope->by_id, hash_keyed_id(scope->id));
}

void scope_free(struct scope *scope)
{
    assert(list_empty(&scope->ops) && list_empty(&scope->warned));
    scope_entries_free(scope);
    if (list_remove(&scope->node))
        hash_table_remove(&scope->scopes->index, &scope->by_id);
    list_remove(&scope->early_node);
    list_remove(&scope->reap_node);
    list_remove(&scope->aborted_node);
    list_remove(&scope->reported_node);
    if (!spare_scope_put(scope->scopes, scope))
        scope_memory_free(scope);
}

struct scope *scope_find(struct scopes *scopes, uint64_t id)
{
    struct hash_node *node = hash_table_find(&scopes->index, hash_keyed_id(id));
    return node ? container_of(node, struct scope, by_id) : NULL;
}

/* ---- sets of ranks ----------------------------------------------------------------- */

/* Empty the set, with room for `words` words. False: no memory. */
static bool rank_set_clear(struct rank_set *set, size_t words)
{
    if (set->words_count < words) {
        uint64_t *grown = mem_resize(set->words, words * sizeof *grown);
        if (!grown)
            return false;
        set->words = grown;
        set->words_count = words;
    }
    memset(set->words, 0, words * sizeof *set->words);
    return true;
}

bool rank_set_add(struct rank_set *set, int rank, int size)
{
    if (!set->used)
        set->used = rank_set_clear(set, (size_t)size / 64 + 1);
    if (set->used)
        set->words[rank / 64] |= 1ull << rank % 64;
    return set->used;
}

void rank_set_remove(struct rank_set *set, int rank)
{
    if (set->used)
        set->words[rank / 64] &= ~(1ull << rank % 64);
}

/* ---- states ------------------------------------------------------------------------ */

struct scope *scope_open_early(struct scopes *scopes, uint64_t id)
{
    struct scope *scope;
    if (scope_open(scopes, id, &scope) != TRYST_OK)
        return NULL;
    scope_add(scope);
    return scope;
}

void scope_drop_early(struct scope *scope)
{
    if (scope->state == SCOPE_EARLY && !scope->entries.count &&
        scope->abort_status == TRYST_OK)
        scope_free(scope);
}

void scope_state_set(struct scope *scope, enum scope_state state)
{
    assert(state > scope->state);
    scope->state = (uint8_t)state;
    list_remove(&scope->early_node);
}

void scope_reap_later(struct scope *scope)
{
    if (!list_linked(&scope->reap_node))
        list_push_back(&scope->scopes->reap, &scope->reap_node);
}
