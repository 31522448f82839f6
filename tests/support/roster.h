/* SPDX-License-Identifier: Apache-2.0 */
/* A roster that a test makes itself: roster_open sorts that of a group. */
#ifndef TESTS_SUPPORT_ROSTER_H
#define TESTS_SUPPORT_ROSTER_H

#include <stdlib.h>
#include <string.h>

#include "rendezvous/bootstrap/device_name.h"
#include "rendezvous/bootstrap/roster.h"

static inline int entries_by_prefix(const void *a, const void *b)
{
    const char *left = (*(const struct roster_entry *const *)a)->device_prefix;
    const char *right = (*(const struct roster_entry *const *)b)->device_prefix;
    return device_name_compare((tryst_view){left, strlen(left)},
                               (tryst_view){right, strlen(right)});
}

/* Fills `by_prefix`, which has room for `roster->size`. */
static inline void roster_sort(struct roster *roster,
                               const struct roster_entry **by_prefix)
{
    for (int i = 0; i < roster->size; i++)
        by_prefix[i] = &roster->entries[i];
    qsort(by_prefix, (size_t)roster->size, sizeof *by_prefix, entries_by_prefix);
    roster->by_prefix = by_prefix;
}

#endif
