/* SPDX-License-Identifier: Apache-2.0 */
/** @file scopes.h
 *  Steps by id, each a table of key entries: steps that are open here, that are closing,
 *  and that only peers have opened so far.
 */
#ifndef TRYST_RENDEZVOUS_MATCH_SCOPES_H
#define TRYST_RENDEZVOUS_MATCH_SCOPES_H

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

/** Bytes of the text of an abort, with its terminator: room for an operation with its key
 *  and the reason. */
enum { ABORT_TEXT_BYTES = 512 };

/** The most freed scopes that are kept for later steps: as many as are usually open at
 *  once. */
enum { SCOPES_SPARE = 16 };

/** A set of ranks, one bit each. Its memory is allocated at the first use. */
struct rank_set {
    uint64_t *words; /**< valid if `used`; NULL: not allocated */
    size_t words_count;
    bool used; /**< false: the set is empty */
};

struct scope {
    /** These fields are kept while the scope is spare: a step that repeats another
     *  allocates nothing. */
    struct hash_table entries; /**< by key (table.h) */
    struct rank_set askers;    /**< ranks that have sent ASK for this step */
    /** Ranks for which sends of this step have waited since the rank's last CLOSED. */
    struct rank_set awaited;

    struct list_node node;       /**< in scopes->all */
    struct list_node early_node; /**< in scopes->early */
    struct list_node reap_node;  /**< in scopes->reap */
    struct hash_node by_id;      /**< in scopes->index */
    struct scopes *scopes;       /**< the table of steps that holds this one */
    uint64_t id;
    uint8_t state;

    /** The fields below belong to the layers above match/. */
    tryst_step *step;   /**< NULL while early, and again once closed */
    struct list ops;    /**< unfinished operations, oldest first */
    struct list warned; /**< unfinished operations that the log has warned about */
    bool all_awaited;   /**< there was no memory for `awaited`: all ranks count */
    tryst_op *close_op; /**< OP_STEP_CLOSE, while closing */
    /** Early: the peer that reported the abort, and its origin; the abort is counted for
     *  both (abort.c). early_from -1: no abort is counted. */
    int32_t early_from, early_origin;
    struct list_node aborted_node; /**< in scopes->aborted */
    /** The number of the cause, counted by `aborts` of struct scopes; 0: not aborted. */
    uint64_t abort_number;
    int32_t abort_from; /**< the peer that reported the cause; -1: this rank */
    /** The status of the abort; TRYST_OK: not aborted. */
    int32_t abort_status;
    int32_t abort_rank;
    /** In scopes->reported: a record has reported the abort, with this status; rank, from
     *  and text are in the fields beside this one. */
    struct list_node reported_node;
    int32_t reported_status;
    uint64_t abort_time_ns;
    char abort_text[ABORT_TEXT_BYTES];
};

/** The ids of the newest steps that were opened here are kept: as far back, a record of a
 *  skipped step differs from one of a closed step. */
enum { STEPS_OPENED_KEPT = 64 };

/** Steps by id. */
struct scopes {
    struct list all;
    struct list early;        /**< steps that are not open here yet */
    struct list reap;         /**< closing steps that may have ended */
    struct list aborted;      /**< aborted steps, by abort_number */
    struct list reported;     /**< steps that the end of the pass aborts (abort_report) */
    struct hash_table index;  /**< all steps, by id */
    struct hash_table parked; /**< WANTs that wait in an entry (parked.h) */
    struct pool *entries;     /**< struct entry, of all steps */
    struct keys keys;
    _Atomic(struct scope *) spare[SCOPES_SPARE]; /**< freed scopes, or NULL */
    uint64_t end;    /**< 1 + the newest step id that was opened here; 0: none */
    uint64_t open;   /**< number of open steps */
    uint64_t opened; /**< number of steps that were opened in this group */
    /** Ring: the id of step number i is at i % STEPS_OPENED_KEPT. */
    uint64_t opened_ids[STEPS_OPENED_KEPT];
    uint64_t aborts; /**< number of causes of aborts so far */
};

/** Initialize. Returns TRYST_OK or TRYST_E_NOMEM; scopes_close must follow in both
 *  cases. */
tryst_status scopes_init(struct scopes *scopes);
/** Free the table: all scopes have been freed. */
void scopes_close(struct scopes *scopes);

/** Make a scope that is not in the index yet; scope_add adds it. Returns TRYST_OK or
 *  TRYST_E_NOMEM. Any thread. */
tryst_status scope_open(struct scopes *scopes, uint64_t id, struct scope **scope_p);
/** Add the scope to the table and to the index. */
void scope_add(struct scope *scope);
/** Free a scope without operations and with empty queues in all its entries. Any thread,
 *  if the scope was never added. */
void scope_free(struct scope *scope);
/** Make and add a scope for records of a step that is not open here yet; the caller
 *  bounds their number. NULL: no memory. */
struct scope *scope_open_early(struct scopes *scopes, uint64_t id);
/** Free `scope` if it is early and has neither an entry nor an abort. */
void scope_drop_early(struct scope *scope);
/** Advance the state: EARLY, OPEN, CLOSING; a state may be skipped. */
void scope_state_set(struct scope *scope, enum scope_state state);
/** Return the scope of a step, or NULL. */
struct scope *scope_find(struct scopes *scopes, uint64_t id);
/** True if `id`, which has no scope, was opened and closed here, or skipped. */
static inline bool scope_is_closed(const struct scopes *scopes, uint64_t id)
{
    return id < scopes->end;
}
/** Note that the step `id`, the newest, is opened here. */
static inline void scope_opened_note(struct scopes *scopes, uint64_t id)
{
    scopes->end = id + 1;
    scopes->opened_ids[scopes->opened++ % STEPS_OPENED_KEPT] = id;
}
/** True if `id`, which is closed (scope_is_closed), was skipped here: a newer step was
 *  opened without it. False too where that is not known any more. */
bool scope_was_skipped(const struct scopes *scopes, uint64_t id);
/** Add a rank of a group of `size` ranks to the set; false: no memory. */
bool rank_set_add(struct rank_set *set, int rank, int size);
void rank_set_remove(struct rank_set *set, int rank);
static inline bool rank_set_has(const struct rank_set *set, int rank)
{
    return set->used && set->words[rank / 64] >> rank % 64 & 1;
}
/** Queue a closing scope, which may have ended, in scopes->reap, once. */
void scope_reap_later(struct scope *scope);

#endif
