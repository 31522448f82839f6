/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A set of small numbers that the system gives out: processors, NUMA nodes.
 *
 * One idea: its texts are those of others, there and back: the list that /sys has ("0-3,8") and the mask of hwloc and
 * NCCL ("0000010f", in groups of 32 bits, the highest first).
 * Threads: any. Callers: readers of machines, the writer of hwloc's XML, bind.
 */
#ifndef TRYST_TOPOLOGY_INDEX_SET_H
#define TRYST_TOPOLOGY_INDEX_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text.h"

#define INDEX_SET_MAX 8192 /* numbers from here on are left out */

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

/* The only member; UINT32_MAX when there is none or several. */
uint32_t index_set_only(const struct index_set *set);

/** "0-3,8", up to a line's end. False when it is no list. */
bool index_set_parse(const char *list, struct index_set *set_p);
void index_set_write(const struct index_set *set, struct text *text);

/** "0000010f,00000001", each group with "0x" before it or without; hwloc leaves a group empty that has no members
 *  ("0x1,,0x0"). False when it is no mask, or has members of
 *  INDEX_SET_MAX and beyond. */
bool index_set_parse_mask(const char *mask, struct index_set *set_p);
/** From the highest group that has a member on; `prefix` ("0x", "") stands before each. */
void index_set_write_mask(const struct index_set *set, const char *prefix,
                          struct text *text);

#endif
