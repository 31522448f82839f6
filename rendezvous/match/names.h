/* SPDX-License-Identifier: Apache-2.0 */
/** @file names.h
 *  Short names of keys: the DATA of a small tensor carries a name instead of its key.
 *
 *  Idea: the producer counts the keys that it declares to a peer. The count is the name,
 *  and means the key in every step, until as many others have been declared as the tables
 *  have places. The consumer keeps the newest names in a table, by name modulo its size,
 *  each with the key, parsed and checked. The producer has the same table, and an index
 *  of it by key. The consumer's table is a cache that the producer controls: no message
 *  withdraws a name, and an overwritten key is declared anew.
 *
 *  A declaration also carries the values for which DATA has no room: the upper halves of
 *  the step's id and of the number within the key, and the shape of a collective's edge.
 *  A use with other values declares the key anew.
 *
 *  Size: a first in, first out table always misses once the steps in progress use more
 *  keys to one peer than the table has places. NAMES_MAX is twice a step of 1,000
 *  tensors; a name has 64 bytes at either end. Most peers use few keys, so both tables
 *  begin with NAMES_FIRST places. After each NAMES_FIRST declarations the consumer tries
 *  to allocate the large table (128 KiB; its pages become real as names are used). Once
 *  it has the table, all its headers carry FRAME_NAMES. The producer must not use a name
 *  that the consumer has overwritten, so it grows its table only when it reads the flag.
 *
 *  Invariants: a name has at most one entry, in the step in which the name was used last,
 *  and an entry has at most one name; both links are cleared when either end goes.
 */
#ifndef TRYST_RENDEZVOUS_MATCH_NAMES_H
#define TRYST_RENDEZVOUS_MATCH_NAMES_H

#include <stdint.h>

#include "flow_shape.h"
#include "table.h"

/** Names that are valid at first, and at most; powers of two. */
#define NAMES_FIRST 64u
#define NAMES_MAX   2048u

/** The values of a declaration beside the key. */
struct name_terms {
    uint32_t step_high, seq_high;   /**< upper halves of step id and number */
    const struct flow_shape *shape; /**< NULL: the key is no edge of a collective */
};
static inline struct name_terms name_terms_of(uint64_t step, uint64_t seq,
                                              const struct flow_shape *shape)
{
    return (struct name_terms){(uint32_t)(step >> 32), (uint32_t)(seq >> 32), shape};
}

/* ---- the consumer ------------------------------------------------------------------ */

struct name {
    tryst_key *key;      /**< a reference; NULL: refused, or no memory */
    uint64_t hash;       /**< hash_keyed of the key; 0: the place is free */
    struct entry *entry; /**< the key's entry in `step`; NULL: unknown */
    uint64_t seq_base;   /**< added to the number in DATA */
    uint32_t name;
    uint32_t step; /**< lower half of the step id of `entry` */
    uint32_t step_high;
    bool shaped;
    int16_t refused; /**< the status for which the key was refused; TRYST_OK with a key */
    struct flow_shape shape; /**< valid if `shaped` */
};
static_assert(sizeof(struct name) == 64, "fills one cache line");

struct names_in {
    struct name *places; /**< by name modulo the size of the table */
    uint32_t mask;       /**< number of places - 1 */
    uint32_t count;      /**< declarations read */
};

/** Allocate the table of NAMES_FIRST places. Returns TRYST_OK or TRYST_E_NOMEM. */
tryst_status names_in_open(struct names_in *names);
void names_in_close(struct names_in *names);

/** Clear and return the place of a name that is being declared; the caller sets its key.
 *  Every NAMES_FIRST declarations this tries to grow a small table. */
struct name *name_declare(struct names_in *names, uint32_t name, uint64_t hash,
                          const struct name_terms *terms);
/** True if NAMES_MAX names are valid. */
static inline bool names_in_many(const struct names_in *names)
{
    return names->mask == NAMES_MAX - 1;
}
/** Return the name, or NULL if it was not declared or has been overwritten. */
static inline struct name *name_find(const struct names_in *names, uint32_t name)
{
    struct name *found = &names->places[name & names->mask];
    return found->name == name && found->hash ? found : NULL;
}
/** Return the id of a step from its lower half, as DATA with this name carries it. */
static inline uint64_t name_step(const struct name *name, uint32_t step)
{
    return (uint64_t)name->step_high << 32 | step;
}
/** True if the name has an entry in the step with this lower half. */
static inline bool name_leads(const struct name *name, uint32_t step)
{
    return name->entry && name->step == step;
}

/** Link the name and `entry`; their earlier links are cleared. */
void name_bind(struct name *name, struct entry *entry);

/* ---- the producer ------------------------------------------------------------------ */

struct declared {
    struct hash_node node; /**< in names_out->index, while `key` is set */
    tryst_key *key;        /**< a reference */
    /** Number of the declaration; its lower half is the name. 0: the place is free. */
    uint64_t count;
    uint64_t plain_high; /**< seq_high; PLAIN_NONE if the declaration has a shape */
    uint32_t step_high, seq_high;
    struct flow_shape shape; /**< valid if plain_high is PLAIN_NONE */
};
static_assert(sizeof(struct declared) == 64, "fills one cache line");
#define PLAIN_NONE UINT64_MAX

struct names_out {
    uint64_t count;          /**< names declared so far */
    struct hash_table index; /**< by key; a key has at most one place */
    struct declared *places; /**< by name modulo the size of the table */
    /** The small table after the growth: all zero; entries may still point into it. */
    struct declared *first;
    uint64_t mask; /**< number of places - 1 */
};

/** Allocate the table of NAMES_FIRST places. Returns TRYST_OK or TRYST_E_NOMEM. */
tryst_status names_out_open(struct names_out *names);
void names_out_close(struct names_out *names);
/** Grow to NAMES_MAX places, as the consumer has done, if there is memory. */
void names_out_grow(struct names_out *names);
static inline bool names_out_many(const struct names_out *names)
{
    return names->mask == NAMES_MAX - 1;
}

/** True if DATA number `seq` of the entry, without a shape, may use the entry's name. */
static inline bool name_is_declared(const struct entry *entry, uint64_t seq)
{
    const struct declared *place = entry->declared_at;
    return place && place->count == entry->declared && place->plain_high == seq >> 32;
}
/** Return the valid declaration of the entry's key with these terms; NULL: there is
 *  none. */
struct declared *name_valid(const struct names_out *names, const struct entry *entry,
                            const struct name_terms *terms);
/** Set the entry's name to that of the valid declaration of its key. */
static inline void name_adopt(struct entry *entry, struct declared *place)
{
    entry->declared = place->count;
    entry->declared_at = place;
}
/** Declare the next name for the entry's key, and set the entry's name to it. */
void name_add(struct names_out *names, struct entry *entry,
              const struct name_terms *terms);
/** Stop using the entry's name: the consumer may have no key for it. */
void name_withdraw(struct names_out *names, struct entry *entry);

#endif
