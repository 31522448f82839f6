/* SPDX-License-Identifier: Apache-2.0 */
/** @file pool.h
 *  Pools of memory: of a device, pinned on the host, or the host's registered with a context.
 *  Library: libtryst.
 *
 *  Allocating from a driver waits for the device, and registering memory with a fabric takes a system
 *  call; a pool does either once for a large region and cuts pieces from it (best fit with coalescing,
 *  after TensorFlow's BFCAllocator). Every region is registered with the pool's context, so tensors
 *  in it travel without a copy.
 *
 *  Streams: tryst_pool_free_after gives memory back that work queued in a stream may
 *  still use. The same stream gets it again at once (tryst_pool_alloc_on), others when
 *  that work is done. Nothing waits. Where further streams use a piece, tryst_pool_use
 *  tells of each; tryst_pool_test says, by events and without synchronising anything,
 *  whether it can be read now.
 *
 *  Thread: any, all functions. Blocks: only where a region is made or given back, as the driver likes;
 *  so ask for what a step needs before it (or reserve: allocate and free it once).
 */
#ifndef TRYST_POOL_H
#define TRYST_POOL_H

#include <tryst/device.h>
#include <tryst/types.h>

TRYST_BEGIN_DECLS

typedef struct tryst_pool tryst_pool;

typedef enum tryst_pool_kind {
    TRYST_POOL_DEVICE = 1, /**< memory of params.device */
    TRYST_POOL_PINNED =
        2, /**< host memory that params.device copies from and to directly */
    TRYST_POOL_REGISTERED =
        3 /**< host memory that peers of this machine map (tryst_mem_alloc) */
} tryst_pool_kind;

typedef struct tryst_pool_params {
    size_t struct_size; /**< sizeof(tryst_pool_params) */
    tryst_pool_kind kind;
    const tryst_device
        *device;           /**< DEVICE, PINNED: open as long as the pool; else NULL */
    const char *name;      /**< for messages, copied; NULL: "pool" */
    uint64_t limit_bytes;  /**< of all regions together; 0: what there is */
    uint64_t region_bytes; /**< of the first; doubled for each that stands; 0: 2 MiB */
    /** Each region that was made (true) or will be given back (false); may be NULL. Runs
     *  in the call that makes or gives it back, under the pool's lock: it must not call
     *  the pool. */
    void (*region_fn)(void *arg, void *data, size_t bytes, bool made);
    void *region_arg;
} tryst_pool_params;

typedef struct tryst_pool_counts {
    size_t struct_size;
    uint64_t in_use_bytes, in_use; /**< pieces that are out */
    uint64_t high_water_bytes;     /**< most bytes that were ever out */
    uint64_t reserved_bytes, regions;
    uint64_t free_pieces, largest_free_bytes;
    uint64_t waiting_pieces; /**< free ones that work of a stream may still use */
    uint64_t allocations;    /**< ever */
} tryst_pool_counts;

/** Open a pool; it has no region yet. Close it before its context and its device.
 *  Returns: TRYST_OK, TRYST_E_INVALID , TRYST_E_NOMEM */
TRYST_API tryst_status tryst_pool_open(tryst_ctx *ctx, const tryst_pool_params *params,
                                       tryst_pool **pool_p);
/** Gives all its memory back; returns how many pieces were still out (a mistake). NULL is allowed. */
TRYST_API uint64_t tryst_pool_close(tryst_pool *pool);

/** `bytes`, aligned to 256, that nothing uses. tryst_last_error says what was asked for, where, and
 *  what would fit.
 *  Returns: TRYST_OK, TRYST_E_NOMEM, TRYST_E_INVALID (0 bytes), TRYST_E_SYSTEM (the device's failure) */
TRYST_API tryst_status tryst_pool_alloc(tryst_pool *pool, size_t bytes, void **data_p);
/** The same for use in `stream` alone, or by what comes after it. Statuses as
 *  tryst_pool_alloc. */
TRYST_API tryst_status tryst_pool_alloc_on(tryst_pool *pool, void *stream, size_t bytes,
                                           void **data_p);

/** Give back what nothing uses any more.
 *  Returns: TRYST_OK, TRYST_E_INVALID (no piece of this pool, or not out) */
TRYST_API tryst_status tryst_pool_free(tryst_pool *pool, void *data);
/** Give back what work queued in `stream` so far may still use. Statuses as
 *  tryst_pool_free. */
TRYST_API tryst_status tryst_pool_free_after(tryst_pool *pool, void *stream, void *data);

/** Work that is queued in `stream` by now reads or writes a piece that is out. Whoever puts it later,
 *  others get it when that is done; until then tryst_pool_test says so. For as many streams as use it.
 *  Returns: TRYST_OK, TRYST_E_INVALID (no piece of this pool, or not out; a pool without a device) */
TRYST_API tryst_status tryst_pool_use(tryst_pool *pool, void *stream, void *data);
/** Can a piece that is out be read now, by the host or by any stream? Asks events, waits for nothing.
 *  Returns: TRYST_OK: all work is done that tryst_pool_use told of, and what used it before
 *           (tryst_pool_free_after, where tryst_pool_alloc_on handed it out again);
 *           TRYST_IN_PROGRESS; TRYST_E_INVALID as above; the device's failure, behind which nobody
 *           can know */
TRYST_API tryst_status tryst_pool_test(tryst_pool *pool, const void *data);
/** Before a stream is closed: its handle may soon be another stream's. */
TRYST_API void tryst_pool_stream_forget(tryst_pool *pool, void *stream);

/** Give back regions that are wholly free; returns their bytes. 0 for NULL. */
TRYST_API uint64_t tryst_pool_trim(tryst_pool *pool);
/** Count the pool's pieces and regions. TRYST_OK, TRYST_E_INVALID */
TRYST_API tryst_status tryst_pool_count(tryst_pool *pool, tryst_pool_counts *counts_p);

TRYST_END_DECLS

#endif
