/* SPDX-License-Identifier: Apache-2.0 */
/** @file scratch.h
 *  Memory for children's slices, bounded for the context (TRYST_SCRATCH_BYTES) and lent slice by slice, to the
 *  most urgent flow first.
 */
#ifndef COMMSCHED_COLL_SCRATCH_H
#define COMMSCHED_COLL_SCRATCH_H

#include <stddef.h>

#include "core/memory/urgent.h"
#include "tryst/status.h"

enum { SCRATCH_SIZES = 32 }; /* powers of two, in bytes */

struct scratch {
    uint64_t limit_bytes;
    uint64_t bytes;      /**< allocated: lent and free */
    uint64_t lent_bytes; /**< of slots that are lent, */
    uint64_t lent;       /**< and how many these are */
    struct list free[SCRATCH_SIZES];
    struct urgent_queue waiters; /**< flows that found no slot */
};

void scratch_init(struct scratch *scratch, uint64_t limit_bytes);
/** Free all slots, which are back; the object stays usable. */
void scratch_close(struct scratch *scratch);
/** Lend a slot of `bytes`. TRYST_OK; TRYST_AGAIN: the bound is reached, and a slot comes back; TRYST_E_NOMEM:
 *  no memory, and none comes back. One slot can be lent whatever the bound. */
tryst_status scratch_get(struct scratch *scratch, size_t bytes, void **slot_p);
void scratch_put(struct scratch *scratch, size_t bytes, void *slot);
/** True if scratch_get would not say TRYST_AGAIN. */
bool scratch_has(const struct scratch *scratch, size_t bytes);

#endif
