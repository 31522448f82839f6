/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A set of small numbers that the system assigns: processors, NUMA nodes.
 *
 * One idea: a set is read and written in the systems' own forms: the list of /sys
 * ("0-3,8") and the mask of NCCL ("0000010f", in groups of 32 bits, the highest
 * first).
 * Threads: any.
 */
#ifndef TRYST_CORE_TEXT_INDEX_SET_H
#define TRYST_CORE_TEXT_INDEX_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "growing_text.h"

#define INDEX_SET_MAX 8192 /* members are below this number */

/** A zeroed set is empty. */
struct index_set {
    uint64_t words[INDEX_SET_MAX / 64];
};

uint32_t index_set_count(const struct index_set *set);
/** Remove from `set` what `other` lacks. */
void index_set_meet(struct index_set *set, const struct index_set *other);

/** Read a list ("0-3,8") up to the end of its first line; members of INDEX_SET_MAX and
 *  above are ignored. Returns false if `list` is malformed. */
bool index_set_parse(const char *list, struct index_set *set_p);
void index_set_write(const struct index_set *set, struct text *text);

/** Read a mask ("0000010f,00000001"), each group with or without "0x"; a group may be
 *  empty ("1,,0"). Returns false if `mask` is malformed or has a member of INDEX_SET_MAX
 *  or above. */
bool index_set_parse_mask(const char *mask, struct index_set *set_p);

#endif
