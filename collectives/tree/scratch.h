/* SPDX-License-Identifier: Apache-2.0 */
/** @file scratch.h
 *  Memory for children's slices, bounded for the context (TRYST_SCRATCH_BYTES) and lent
 *  slice by slice, to the most urgent flow first.
 */
#ifndef TRYST_COLLECTIVES_TREE_SCRATCH_H
#define TRYST_COLLECTIVES_TREE_SCRATCH_H

#include <stddef.h>

#include "core/memory/urgent.h"
#include "tryst/status.h"

/** Number of slot sizes: 2^0 to 2^31 bytes. */
enum { SCRATCH_SIZES = 32 };

struct scratch {
    uint64_t limit_bytes;
    uint64_t bytes;      /**< bytes of all slots, lent and free */
    uint64_t lent_bytes; /**< bytes of the lent slots */
    uint64_t lent;       /**< number of the lent slots */
    struct list free[SCRATCH_SIZES];
    struct urgent_queue waiters; /**< flows that wait for a slot */
};

void scratch_init(struct scratch *scratch, uint64_t limit_bytes);
/** Free all slots; none is lent. The object stays usable. */
void scratch_close(struct scratch *scratch);
/** Lend a slot of `bytes`. TRYST_OK; TRYST_AGAIN: the bound is reached or memory is
 *  out, and a lent slot will come back; TRYST_E_NOMEM: memory is out, and no slot is
 *  lent. One slot can be lent whatever the bound. */
tryst_status scratch_get(struct scratch *scratch, size_t bytes, void **slot_p);
/** Return a slot of `bytes`. */
void scratch_put(struct scratch *scratch, size_t bytes, void *slot);
/** True if the bound allows scratch_get a slot of `bytes`. */
bool scratch_has(const struct scratch *scratch, size_t bytes);

#endif
