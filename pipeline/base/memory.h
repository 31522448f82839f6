/* SPDX-License-Identifier: Apache-2.0 */
/* Allocates aligned, zeroed memory for weights and activations. */
#ifndef TRYST_PIPELINE_BASE_MEMORY_H
#define TRYST_PIPELINE_BASE_MEMORY_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/** Alignment of every matrix. */
#define MEMORY_ALIGN_BYTES 64u

/** Return zeroed memory aligned to MEMORY_ALIGN_BYTES, also for 0 bytes; NULL if out of
 *  memory. The caller frees it with free. */
static inline void *memory_alloc_aligned(uint64_t bytes)
{
    uint64_t unit = MEMORY_ALIGN_BYTES;
    if (bytes > UINT64_MAX - unit) {
        return NULL;
    }
    uint64_t rounded = bytes ? (bytes + unit - 1) / unit * unit : unit;
    void *memory = aligned_alloc(unit, rounded);
    if (memory) {
        memset(memory, 0, rounded);
    }
    return memory;
}

#endif
