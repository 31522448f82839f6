/* SPDX-License-Identifier: Apache-2.0 */
/** @file pool.h
 *  Pools of device memory, of pinned host memory, or of host memory registered with a
 *  context. Library: libtryst.
 *
 *  An allocation from a driver waits for the device, and registering memory with a fabric
 *  takes a system call. A pool does either once for a large region and cuts pieces from
 *  it (best fit with coalescing, after TensorFlow's BFCAllocator). Every region is
 *  registered with the pool's context, so tensors in it travel without a copy.
 *
 *  Streams: tryst_pool_free_after gives back memory that work queued in a stream may
 *  still use. The same stream can get the memory again at once (tryst_pool_alloc_on);
 *  other requests get it when that work is done. No call waits for the work. If further
 *  streams use a piece, the caller notes each stream by tryst_pool_use; tryst_pool_test
 *  then tests, by events and without synchronising, whether the piece can be read now.
 *
 *  Thread:  any, all functions. Blocks: only while the driver makes or frees a region; so
 *           allocate the memory of a step before the step (or reserve: allocate and free
 *           it once).
 */
#ifndef TRYST_POOL_H
#define TRYST_POOL_H

#include <tryst/device.h>
#include <tryst/types.h>

TRYST_BEGIN_DECLS

typedef struct tryst_pool tryst_pool;

typedef enum tryst_pool_kind {
    TRYST_POOL_DEVICE = 1, /**< memory of params.device */
    /** host memory that params.device copies from and to directly */
    TRYST_POOL_PINNED = 2,
    /** host memory that peers of this machine map (tryst_mem_alloc) */
    TRYST_POOL_REGISTERED = 3
} tryst_pool_kind;

typedef struct tryst_pool_params {
    size_t struct_size; /**< sizeof(tryst_pool_params) */
    tryst_pool_kind kind;
    /** DEVICE, PINNED: the device, which must stay open as long as the pool; else NULL */
    const tryst_device *device;
    const char *name; /**< name in messages, copied; NULL: "pool" */
    /** limit for all regions together; 0: no limit but the memory that exists */
    uint64_t limit_bytes;
    /** size of the first region; a new region has twice that for one region that exists,
     *  four times for two, and so on; 0: 2 MiB */
    uint64_t region_bytes;
    /** Called for each region that was made (`made`) or will be given back (not `made`);
     *  may be NULL. Runs in the call that makes or gives back the region, under the
     *  pool's lock: it must not call the pool. */
    void (*region_fn)(void *arg, void *data, size_t bytes, bool made);
    void *region_arg;
} tryst_pool_params;

typedef struct tryst_pool_counts {
    size_t struct_size;
    uint64_t in_use_bytes, in_use; /**< bytes and number of pieces that are out */
    uint64_t high_water_bytes;     /**< largest in_use_bytes so far */
    uint64_t reserved_bytes, regions;
    uint64_t free_pieces, largest_free_bytes;
    uint64_t waiting_pieces; /**< free pieces that work of a stream may still use */
    uint64_t allocations;    /**< allocations since the pool was opened */
} tryst_pool_counts;

/** Open a pool; it has no region yet. Close it before its context and its device.
 *  Returns: TRYST_OK, TRYST_E_INVALID, TRYST_E_NOMEM */
TRYST_API tryst_status tryst_pool_open(tryst_ctx *ctx, const tryst_pool_params *params,
                                       tryst_pool **pool_p);
/** Close a pool and give all its memory back, also that of pieces that are still out.
 *  Returns the number of these (0 unless the caller made a mistake). NULL is allowed. */
TRYST_API uint64_t tryst_pool_close(tryst_pool *pool);

/** Allocate `bytes`, aligned to 256, that no work uses. On failure tryst_last_error gives
 *  the request, the pool, and what would fit.
 *  Returns: TRYST_OK, TRYST_E_NOMEM, TRYST_E_INVALID (0 bytes), TRYST_E_SYSTEM (the
 *           device's failure) */
TRYST_API tryst_status tryst_pool_alloc(tryst_pool *pool, size_t bytes, void **data_p);
/** Allocate for use in `stream`, or by work that follows `stream`'s. Statuses as
 *  tryst_pool_alloc. */
TRYST_API tryst_status tryst_pool_alloc_on(tryst_pool *pool, void *stream, size_t bytes,
                                           void **data_p);

/** Give back a piece that no work uses any more.
 *  Returns: TRYST_OK, TRYST_E_INVALID (not a piece of this pool, or not out) */
TRYST_API tryst_status tryst_pool_free(tryst_pool *pool, void *data);
/** Give back a piece that work queued in `stream` so far may still use. Statuses as
 *  tryst_pool_free. */
TRYST_API tryst_status tryst_pool_free_after(tryst_pool *pool, void *stream, void *data);

/** Note that work queued in `stream` so far reads or writes a piece that is out. Until
 *  that work is done, tryst_pool_test returns TRYST_IN_PROGRESS. Once the piece is given
 *  back (by either call), only tryst_pool_alloc_on for this stream may get it before
 *  that, if no other stream's work is pending. Call this for each stream that uses the
 *  piece. Returns: TRYST_OK, TRYST_E_INVALID (not a piece of this pool, or not out; a
 *  pool
 *           without a device) */
TRYST_API tryst_status tryst_pool_use(tryst_pool *pool, void *stream, void *data);
/** Test whether a piece that is out can be read now, by the host or by any stream.
 *  Queries events, without waiting.
 *  Returns: TRYST_OK           all work is done that tryst_pool_use noted, and all work
 *                              of the piece's last use (if tryst_pool_alloc_on handed it
 *                              out again after tryst_pool_free_after)
 *           TRYST_IN_PROGRESS  some of that work is not done
 *           TRYST_E_INVALID    not a piece of this pool, or not out
 *           or the device's failure, after which the answer is unknown */
TRYST_API tryst_status tryst_pool_test(tryst_pool *pool, const void *data);
/** Forget a stream. Call this before the stream is closed: its handle may soon be another
 *  stream's. */
TRYST_API void tryst_pool_stream_forget(tryst_pool *pool, void *stream);

/** Give back regions that are wholly free; returns their bytes. 0 for NULL. */
TRYST_API uint64_t tryst_pool_trim(tryst_pool *pool);
/** Count the pool's pieces and regions. Returns TRYST_OK, TRYST_E_INVALID */
TRYST_API tryst_status tryst_pool_count(tryst_pool *pool, tryst_pool_counts *counts_p);

TRYST_END_DECLS

#endif
