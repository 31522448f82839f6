/* SPDX-License-Identifier: Apache-2.0 */
/* A roster that a test makes itself: roster_open would gather and check the entries of a
 * group. */
#ifndef TRYST_TESTS_SUPPORT_ROSTER_H
#define TRYST_TESTS_SUPPORT_ROSTER_H

#include <stdlib.h>
#include <string.h>

#include "rendezvous/bootstrap/roster/device_name.h"
#include "rendezvous/bootstrap/roster/roster.h"

static inline int entries_by_prefix(const void *a, const void *b)
{
    const char *left = (*(const struct roster_entry *const *)a)->device_prefix;
    const char *right = (*(const struct roster_entry *const *)b)->device_prefix;
    return device_name_compare((tryst_view){left, strlen(left)},
                               (tryst_view){right, strlen(right)});
}

/** Fill `roster` with `roster->size` entries; free the previous ones. */
static inline tryst_status roster_make(struct roster *roster,
                                       const struct roster_entry *entries)
{
    size_t size = (size_t)roster->size;
    const struct roster_entry **by_prefix = calloc(size, sizeof *by_prefix);
    for (size_t i = 0; by_prefix && i < size; i++)
        by_prefix[i] = &entries[i];
    if (by_prefix)
        qsort(by_prefix, size, sizeof *by_prefix, entries_by_prefix);
    roster_close(roster);
    tryst_status status =
        by_prefix ? roster_keep(roster, entries, by_prefix) : TRYST_E_NOMEM;
    free(by_prefix);
    return status;
}

#endif
