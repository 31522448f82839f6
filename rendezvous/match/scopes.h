/* SPDX-License-Identifier: Apache-2.0 */
/** @file scopes.h
 *  Steps by id, each a table of key entries: those that are open here, that close, and that only peers
 *  know of yet.
 */
#ifndef RENDEZVOUS_MATCH_SCOPES_H
#define RENDEZVOUS_MATCH_SCOPES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/memory/hash_table.h"
#include "core/memory/list.h"
#include "core/memory/pool.h"
#include "keys.h"
#include "tryst/types.h"

enum scope_state { SCOPE_EARLY, SCOPE_OPEN, SCOPE_CLOSING };

/** Freed scopes with memory for later steps: as many as are usually open at once. */
enum { SCOPES_SPARE = 16 };

struct scope {
    /* Kept while the scope is spare: a step that repeats another allocates nothing. */
    struct hash_table entries; /**< by key (table.h) */
    uint64_t *askers; /**< bit per rank: it asked whether the step is closed; or NULL */
    size_t askers_words;

    struct list_node node;       /**< scopes->all */
    struct list_node early_node; /**< scopes->early */
    struct list_node reap_node;  /**< scopes->reap */
    struct hash_node by_id;      /**< scopes->index */
    struct scopes *scopes;       /**< those that it is one of */
    uint64_t id;
    uint8_t state;

    /* What follows is its users', above this room. */
    tryst_step *step;   /**< NULL while early, and again once closed */
    struct list ops;    /**< unfinished operations, oldest first */
    struct list warned; /**< the same, after they were warned about */
    bool sends_wait;    /**< a send has waited in it for its WANT */
    tryst_op *close_op; /**< OP_STEP_CLOSE, while closing */
    bool asked;         /**< `askers` counts */
    int32_t aborted_by; /**< early: the rank that told us, whose early_aborts it is; -1 */
    /* Why it was aborted; status TRYST_OK while it was not. */
    int32_t abort_status;
    int32_t abort_rank;
    uint64_t abort_time_ns;
    char abort_text[256];
};

/** Steps by id. */
struct scopes {
    struct list all;
    struct list early;       /**< those not open here yet */
    struct list reap;        /**< closing, and perhaps at their end */
    struct hash_table index; /**< all of them by id */
    struct pool *entries;    /**< struct entry, of all steps */
    struct keys keys;
    _Atomic(struct scope *) spare[SCOPES_SPARE]; /**< or NULL */
    uint64_t end;  /**< 1 + newest step id that was opened here, 0: none */
    uint64_t open; /**< how many are */
};

/** TRYST_OK, TRYST_E_NOMEM: scopes_close still follows. */
tryst_status scopes_init(struct scopes *scopes);
/** All are freed already. */
void scopes_close(struct scopes *scopes);

/** Not in the index yet (scope_add). Any thread. */
tryst_status scope_open(struct scopes *scopes, uint64_t id, struct scope **scope_p);
void scope_add(struct scope *scope);
/** No operation is left, and nothing in the queues of its entries. One that was never added: any thread. */
void scope_free(struct scope *scope);
/** A scope, in the index, for what a peer says of a step that is not open here yet; the caller
 *  bounds that. NULL: no memory. */
struct scope *scope_open_early(struct scopes *scopes, uint64_t id);
/** Nothing was put into an early scope after all? Then it goes. */
void scope_drop_early(struct scope *scope);
/** EARLY, then OPEN, then CLOSING; a state may be left out. */
void scope_state_set(struct scope *scope, enum scope_state state);
/** NULL when there is none. */
struct scope *scope_find(struct scopes *scopes, uint64_t id);
/** Whether `id`, which has no scope, was opened and closed here (or skipped). */
static inline bool scope_is_closed(const struct scopes *scopes, uint64_t id)
{
    return id < scopes->end;
}
/** It is closing, and may have come to an end: onto scopes->reap, once. */
void scope_reap_later(struct scope *scope);

#endif
