/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A set of small numbers that the system gives out: processors, NUMA nodes.
 *
 * One idea: its text is the list that /sys has ("0-3,8"), there and back.
 * Threads: any. Callers: readers of machines, the writer of hwloc's XML, bind.
 */
#ifndef TRYST_TOPOLOGY_INDEX_SET_H
#define TRYST_TOPOLOGY_INDEX_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INDEX_SET_MAX 4096 /* numbers from here on are left out */

/* Zeroed it is empty. */
struct index_set {
    uint64_t words[INDEX_SET_MAX / 64];
};

void index_set_add(struct index_set *set, uint32_t member);
bool index_set_has(const struct index_set *set, uint32_t member);
uint32_t index_set_count(const struct index_set *set);
/* `set` gets what `other` has too, or keeps only what `other` has. */
void index_set_join(struct index_set *set, const struct index_set *other);
void index_set_meet(struct index_set *set, const struct index_set *other);

/** "0-3,8", up to a line's end. False when it is no list. */
bool index_set_parse(const char *list, struct index_set *set_p);
/** The other way round, cut where it has no room. */
void index_set_format(const struct index_set *set, char *list, size_t capacity);

#endif
