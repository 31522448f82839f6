/* SPDX-License-Identifier: Apache-2.0 */
/** @file names.h
 *  Keys by short names: what a small tensor's DATA says instead of its step and key.
 *
 *  Idea: the producer counts the keys that it declares to a peer; the count is the name, and stands for
 *  (step, key) until NAMES_MAX others have been declared. The consumer keeps the newest NAMES_MAX
 *  in a table, by name modulo its size. It is a cache that the producer steers: nothing is ever
 *  taken back by a message, and what has fallen out is declared anew.
 *
 *  Invariants: a name leads to its entry from the moment that one is made for it until the entry is
 *  freed; an entry knows the one name that leads to it.
 */
#ifndef RENDEZVOUS_MATCH_NAMES_H
#define RENDEZVOUS_MATCH_NAMES_H

#include <stdint.h>

#include "table.h"

/** A power of two. */
#define NAMES_MAX 256u

/** At the consumer. */
struct name {
    uint64_t step;
    uint64_t hash; /**< of the key; 0: nothing was declared here */
    struct entry
        *entry; /**< NULL: refused, no memory for it, or its step has been freed */
    uint32_t name;
};

/** May DATA name the entry's key by what was declared last? `count`: names declared so far. */
static inline bool name_is_declared(const struct entry *entry, uint64_t count)
{
    return entry->declared && count - entry->declared < NAMES_MAX;
}

/** The place of a name that is being declared; what stood there is forgotten. */
struct name *name_declare(struct name *names, uint32_t name, uint64_t step,
                          uint64_t hash);
/** NULL: it was not declared, or has been overwritten. */
static inline struct name *name_find(struct name *names, uint32_t name)
{
    struct name *found = &names[name & (NAMES_MAX - 1)];
    return found->name == name && found->hash ? found : NULL;
}

/** The name means `entry` from now on; another name that meant it means nothing. */
void name_bind(struct name *name, struct entry *entry);
/** Forget all, before their memory is freed. */
void names_forget(struct name *names);

#endif
