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

/** Number of buffer sizes: 2^0 to 2^31 bytes. */
enum { SCRATCH_SIZES = 32 };

struct scratch {
    uint64_t limit_bytes;
    uint64_t bytes;      /**< bytes of all buffers, lent and free */
    uint64_t lent_bytes; /**< bytes of the lent buffers */
    uint64_t lent;       /**< number of the lent buffers */
    struct list free[SCRATCH_SIZES];
    struct urgent_queue waiters; /**< flows that wait for a buffer */
};

void scratch_init(struct scratch *scratch, uint64_t limit_bytes);
/** Free all buffers; none is lent. The object stays usable. */
void scratch_close(struct scratch *scratch);
/** Lend a buffer of `bytes`. TRYST_OK; TRYST_AGAIN: the bound is reached or memory is
 *  out, and a lent buffer will come back; TRYST_E_NOMEM: memory is out, and no buffer is
 *  lent. One buffer can be lent whatever the bound. */
tryst_status scratch_get(struct scratch *scratch, size_t bytes, void **buffer_p);
/** Return a buffer of `bytes`. */
void scratch_put(struct scratch *scratch, size_t bytes, void *buffer);
/** True if the bound allows scratch_get a buffer of `bytes`. */
bool scratch_has(const struct scratch *scratch, size_t bytes);

#endif
