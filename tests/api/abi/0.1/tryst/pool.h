/* SPDX-License-Identifier: Apache-2.0 */
/* Frozen by tests/api/abi/freeze.sh: do not edit. */
#ifndef TRYST_POOL_H
#define TRYST_POOL_H

#include <tryst/device.h>
#include <tryst/types.h>

TRYST_BEGIN_DECLS

typedef struct tryst_pool tryst_pool;

typedef enum tryst_pool_kind {
    TRYST_POOL_DEVICE = 1,
    TRYST_POOL_PINNED = 2,
    TRYST_POOL_REGISTERED = 3
} tryst_pool_kind;

typedef struct tryst_pool_params {
    size_t struct_size;
    tryst_pool_kind kind;
    const tryst_device *device;
    const char *name;
    uint64_t limit_bytes;
    uint64_t region_bytes;
    void (*region_fn)(void *arg, void *data, size_t bytes, bool made);
    void *region_arg;
} tryst_pool_params;

typedef struct tryst_pool_counts {
    size_t struct_size;
    uint64_t in_use_bytes, in_use;
    uint64_t high_water_bytes;
    uint64_t reserved_bytes, regions;
    uint64_t free_pieces, largest_free_bytes;
    uint64_t waiting_pieces;
    uint64_t allocations;
} tryst_pool_counts;

TRYST_API tryst_status tryst_pool_open(tryst_ctx *ctx, const tryst_pool_params *params,
                                       tryst_pool **pool_p);
TRYST_API uint64_t tryst_pool_close(tryst_pool *pool);

TRYST_API tryst_status tryst_pool_alloc(tryst_pool *pool, size_t bytes, void **data_p);
TRYST_API tryst_status tryst_pool_alloc_on(tryst_pool *pool, void *stream, size_t bytes,
                                           void **data_p);

TRYST_API tryst_status tryst_pool_free(tryst_pool *pool, void *data);
TRYST_API tryst_status tryst_pool_free_after(tryst_pool *pool, void *stream, void *data);

TRYST_API tryst_status tryst_pool_use(tryst_pool *pool, void *stream, void *data);
TRYST_API tryst_status tryst_pool_test(tryst_pool *pool, const void *data);
TRYST_API void tryst_pool_stream_forget(tryst_pool *pool, void *stream);

TRYST_API uint64_t tryst_pool_trim(tryst_pool *pool);
TRYST_API tryst_status tryst_pool_count(tryst_pool *pool, tryst_pool_counts *counts_p);

TRYST_END_DECLS

#endif
