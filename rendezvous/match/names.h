/* SPDX-License-Identifier: Apache-2.0 */
/** @file names.h
 *  Keys by short names: what a small tensor's DATA carries instead of its key.
 *
 *  Idea: the producer counts the keys that it declares to a peer; the count is the name, and means the
 *  key, in every step, until as many others have been declared as the tables have places. The consumer keeps
 *  the newest names in a table, by name modulo its size, each with the key, parsed and checked. The producer
 *  has the same table, and an index of it by key. It is a cache that the producer steers: no message takes a
 *  name back, and what has fallen out is declared anew.
 *
 *  A declaration also carries the rest, for which DATA has no room: the upper halves of the step's id and
 *  of the number within the key, and the shape of a collective's edge. A use with others declares the key
 *  anew.
 *
 *  Size: first in, first out misses always once the steps under way use more keys towards one peer than the
 *  table has places. NAMES_MAX is twice a step of 1,000 tensors; 64 bytes a name at either end. Most peers
 *  use few keys, so both tables begin with NAMES_FIRST. The consumer goes over to the large table when
 *  NAMES_FIRST names were declared and there is memory (128 KiB, of which pages become real as names are
 *  used), and then all its headers say so (FRAME_NAMES). The producer, which may use no name that the
 *  consumer has overwritten, follows when it reads that.
 *
 *  Invariants: a name leads to at most one entry, that of the step in which it was used last, and an entry is
 *  led to by at most one name; both links go when either end does.
 */
#ifndef RENDEZVOUS_MATCH_NAMES_H
#define RENDEZVOUS_MATCH_NAMES_H

#include <stdint.h>

#include "flow_shape.h"
#include "table.h"

/** Powers of two: names that are valid at first, and at most. */
#define NAMES_FIRST 64u
#define NAMES_MAX   2048u

/** The terms of a declaration, beside the key. */
struct name_terms {
    uint32_t step_high, seq_high;   /**< upper halves */
    const struct flow_shape *shape; /**< or NULL */
};
static inline struct name_terms name_terms_of(uint64_t step, uint64_t seq,
                                              const struct flow_shape *shape)
{
    return (struct name_terms){(uint32_t)(step >> 32), (uint32_t)(seq >> 32), shape};
}

/* ---- the consumer ------------------------------------------------------------------------- */

struct name {
    tryst_key *key;      /**< a reference; NULL: refused, or there was no memory for it */
    uint64_t hash;       /**< as declared; 0: nothing was declared here */
    struct entry *entry; /**< of `step`; NULL: not known */
    uint64_t seq_base;   /**< DATA's number counts from here */
    uint32_t name;
    uint32_t step; /**< of `entry`, lower half; */
    uint32_t step_high;
    bool shaped;
    int16_t refused;         /**< the status that refused the key; TRYST_OK with a key */
    struct flow_shape shape; /**< if `shaped` */
};
static_assert(sizeof(struct name) == 64, "one line of the cache");

struct names_in {
    struct name *places; /**< by name */
    uint32_t mask;       /**< places - 1 */
    uint32_t count;      /**< declarations that were read */
};

/** TRYST_OK, TRYST_E_NOMEM. */
tryst_status names_in_open(struct names_in *names);
void names_in_close(struct names_in *names);

/** The place of a name that is being declared, without its key; what it meant before is forgotten. The table
 *  becomes the large one if that is due and there is memory. */
struct name *name_declare(struct names_in *names, uint32_t name, uint64_t hash,
                          const struct name_terms *terms);
/** True if NAMES_MAX names are valid. */
static inline bool names_in_many(const struct names_in *names)
{
    return names->mask == NAMES_MAX - 1;
}
/** NULL: it was not declared, or has been overwritten. */
static inline struct name *name_find(const struct names_in *names, uint32_t name)
{
    struct name *found = &names->places[name & names->mask];
    return found->name == name && found->hash ? found : NULL;
}
/** Return the id of a step by its lower half, as DATA of this name carries it. */
static inline uint64_t name_step(const struct name *name, uint32_t step)
{
    return (uint64_t)name->step_high << 32 | step;
}
/** True if the name leads to an entry of the step with this lower half. */
static inline bool name_leads(const struct name *name, uint32_t step)
{
    return name->entry && name->step == step;
}

/** The name leads to `entry` from now on; another name that led to it leads nowhere. */
void name_bind(struct name *name, struct entry *entry);

/* ---- the producer ------------------------------------------------------------------------- */

struct declared {
    struct hash_node node; /**< names_out->index, while it has a key */
    tryst_key *key;        /**< a reference */
    uint64_t count;        /**< its name is the lower half; 0: none */
    uint64_t plain_high;   /**< seq_high; with a shape PLAIN_NONE */
    uint32_t step_high, seq_high;
    struct flow_shape shape; /**< unless it is plain */
};
static_assert(sizeof(struct declared) == 64, "one line of the cache");
#define PLAIN_NONE UINT64_MAX

struct names_out {
    uint64_t count;          /**< names that were declared */
    struct hash_table index; /**< by key: each is in one place at most */
    struct declared *places; /**< by name */
    struct declared
        *first; /**< what `places` were before the large table: empty, and still read */
    uint64_t mask; /**< places - 1 */
};

/** TRYST_OK, TRYST_E_NOMEM. */
tryst_status names_out_open(struct names_out *names);
void names_out_close(struct names_out *names);
/** The consumer keeps NAMES_MAX names: so does the producer from now on, if there is memory. */
void names_out_grow(struct names_out *names);
static inline bool names_out_many(const struct names_out *names)
{
    return names->mask == NAMES_MAX - 1;
}

/** True if plain DATA number `seq` of the entry may use the name that the entry has. */
static inline bool name_is_declared(const struct entry *entry, uint64_t seq)
{
    const struct declared *place = entry->declared_at;
    return place && place->count == entry->declared && place->plain_high == seq >> 32;
}
/** True if the key of the entry has a valid name with these terms: the entry has it from now on. */
bool name_adopt(struct names_out *names, struct entry *entry,
                const struct name_terms *terms);
/** The next name is declared for the key of the entry, which has it from now on. */
void name_add(struct names_out *names, struct entry *entry,
              const struct name_terms *terms);
/** The consumer may have no key by the entry's name: it is not used again. */
void name_withdraw(struct names_out *names, struct entry *entry);

#endif
