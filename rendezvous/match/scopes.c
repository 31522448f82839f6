/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps by id; see scopes.h.
 *
 * Idea: a chained hash table that doubles when it is full; without memory its chains just grow longer.
 * Invariants: a step is in scopes->all, in the index, and while it is EARLY in scopes->early. What
 * peers make us keep of steps that are not open is bounded for each of them by itself: WANTs by
 * early_max, DATA by eager credit, aborts by EARLY_ABORTS_MAX; an early step holds some of these, or
 * it is dropped. So no peer takes another's place.
 * Callers: step.c, producer.c, eager.c, abort.c.
 */
#include <assert.h>

#include "core/alloc.h"
#include "scopes.h"
#include "table.h"

enum { SCOPE_BUCKETS_MIN = 16 };

tryst_status scope_open(struct scopes *scopes, uint64_t id, struct scope **scope_p)
{
    struct scope *scope = mem_zalloc(sizeof *scope);
    if (!scope)
        return TRYST_E_NOMEM;
    scope->buckets = mem_zalloc(SCOPE_BUCKETS_MIN * sizeof(struct entry *));
    if (!scope->buckets) {
        mem_free(scope);
        return TRYST_E_NOMEM;
    }
    scope->buckets_count = SCOPE_BUCKETS_MIN;
    scope->scopes = scopes;
    scope->id = id;
    scope->state = SCOPE_EARLY;
    scope->aborted_by = scope->abort_rank = -1;
    list_init(&scope->ops);
    list_init(&scope->warned);
    *scope_p = scope;
    return TRYST_OK;
}

/* ---- the index ---------------------------------------------------------------------------- */

void scopes_init(struct scopes *scopes)
{
    list_init(&scopes->all);
    list_init(&scopes->early);
    list_init(&scopes->reap);
    scopes->index.buckets = scopes->index.first;
    scopes->index.buckets_count = SCOPES_FIRST;
}

void scopes_close(struct scopes *scopes)
{
    assert(list_empty(&scopes->all));
    if (scopes->index.buckets != scopes->index.first)
        mem_free(scopes->index.buckets);
    scopes->index.buckets = scopes->index.first;
}

/** Where the step with this id hangs, or would. */
static struct scope **place_of(struct scope_index *index, uint64_t id)
{
    uint64_t hash = id * 0x9e3779b97f4a7c15ull; /* its upper half depends on every bit */
    struct scope **place = &index->buckets[hash >> 32 & (index->buckets_count - 1)];
    while (*place && (*place)->id != id)
        place = &(*place)->next;
    return place;
}

static void index_grow(struct scope_index *index)
{
    struct scope_index old = *index;
    struct scope **buckets = mem_zalloc(2 * old.buckets_count * sizeof(struct scope *));
    if (!buckets)
        return;
    index->buckets = buckets;
    index->buckets_count = 2 * old.buckets_count;
    for (size_t i = 0; i < old.buckets_count; i++) {
        while (old.buckets[i]) {
            struct scope *scope = old.buckets[i];
            old.buckets[i] = scope->next;
            scope->next = NULL;
            *place_of(index, scope->id) = scope;
        }
    }
    if (old.buckets != index->first)
        mem_free(old.buckets);
}

void scope_add(struct scope *scope)
{
    struct scopes *scopes = scope->scopes;
    list_push_back(&scopes->all, &scope->node);
    if (scope->state == SCOPE_EARLY)
        list_push_back(&scopes->early, &scope->early_node);
    if (++scopes->index.count > scopes->index.buckets_count)
        index_grow(&scopes->index);
    *place_of(&scopes->index, scope->id) = scope;
}

void scope_free(struct scope *scope)
{
    assert(list_empty(&scope->ops) && list_empty(&scope->warned));
    scope_entries_free(scope);
    if (list_remove(&scope->node)) {
        *place_of(&scope->scopes->index, scope->id) = scope->next;
        scope->scopes->index.count--;
    }
    list_remove(&scope->early_node);
    list_remove(&scope->reap_node);
    mem_free(scope->buckets);
    mem_free(scope->askers);
    mem_free(scope);
}

struct scope *scope_find(struct scopes *scopes, uint64_t id)
{
    return *place_of(&scopes->index, id);
}

/* ---- states ------------------------------------------------------------------------------- */

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
    if (scope->state == SCOPE_EARLY && !scope->entries_count &&
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
