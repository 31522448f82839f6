/* SPDX-License-Identifier: Apache-2.0 */
/** @file parked.h
 *  Receives of peers (WANTs) that wait in an entry for their sends, found by number.
 *
 *  Idea: a peer chooses the numbers of its WANTs and may have tens of thousands parked,
 *  so a search must not walk them. All parked WANTs of an engine are in one hash table,
 *  by entry and number, under a hash that no peer can compute; the list of an entry only
 *  shows whether it has any.
 */
#ifndef TRYST_RENDEZVOUS_MATCH_PARKED_H
#define TRYST_RENDEZVOUS_MATCH_PARKED_H

#include <stdint.h>

#include "core/memory/hash_table.h"
#include "core/memory/list.h"

struct entry;

/** Embedded in a want. */
struct parked {
    struct list_node node;      /**< in entry->wants while parked */
    struct hash_node by_number; /**< in scopes->parked while parked */
    struct entry *entry;
    uint64_t seq;
};

/** Park the WANT; its entry and number are set. No other parked WANT has both. */
void parked_add(struct parked *parked);
/** Take the WANT out of its entry. False: it is not parked. */
bool parked_remove(struct parked *parked);
/** Return the WANT of `entry` with this number, or NULL. */
struct parked *parked_find(const struct entry *entry, uint64_t seq);

#endif
