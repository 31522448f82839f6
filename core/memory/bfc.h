/* SPDX-License-Identifier: Apache-2.0 */
/** @file bfc.h
 *  Pieces of memory that another owner provides (a device's driver, say): best fit with
 *  coalescing.
 *
 *  Idea: device memory is expensive to allocate and to free (the driver waits for the
 *  device), so a backend provides a few large *regions*, which are cut here. A request
 *  gets the smallest free *chunk* that holds it, and the rest of that chunk is split off.
 *  A freed chunk merges with its free neighbours. The bytes themselves are never touched:
 *  all bookkeeping is in host memory, so the same code serves device, pinned and
 *  registered memory, and all of it is tested on the host. After Doug Lea's allocator by
 *  way of TensorFlow's BFCAllocator (tensorflow/core/common_runtime/bfc_allocator.h).
 *
 *  Streams: a chunk that was freed while work of a stream may still use it goes to a
 *  request of the same stream at once (the new work runs later in that stream), and to
 *  other requests when the event that was recorded at the free has passed. Two chunks
 *  merge only if both wait for nothing, or both for the same stream.
 *
 *  Invariants (bfc_is_valid): the chunks of a region lie side by side and cover the
 *  region; no two free neighbours are mergeable; every free chunk is in the list of its
 *  size; the counts are the sums over all chunks.
 *
 *  No locks: the caller serialises.
 */
#ifndef TRYST_CORE_MEMORY_BFC_H
#define TRYST_CORE_MEMORY_BFC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tryst/status.h"

/** Chunks are multiples of BFC_GRAIN bytes, and so aligned for a device's coalesced
 *  access and for cache lines. */
#define BFC_GRAIN 256

/** The source of regions and of events. */
struct bfc_backend {
    /** Allocate a region. Returns TRYST_OK or an error; after TRYST_E_NOMEM a smaller
     *  region is tried. NULL: regions come by bfc_region_add alone. */
    tryst_status (*region_alloc)(void *arg, size_t bytes, void **data_p);
    void (*region_free)(void *arg, void *data, size_t bytes);
    /** Record an event that passes when `stream` has done the work queued so far. This
     *  slot and the next two are NULL in a backend without streams. */
    tryst_status (*event_record)(void *arg, void *stream, void **event_p);
    /** True if `event` has passed; the event is then given back. */
    bool (*event_passed)(void *arg, void *event);
    /** Give back an event that will not be polled again. */
    void (*event_drop)(void *arg, void *event);
};

struct bfc_params {
    const struct bfc_backend *backend;
    void *arg;
    uint64_t limit_bytes; /**< limit for all regions together; 0: none */
    /** Bytes of the first region; 0: 2 MiB. A further region has twice that for one
     *  region that exists, four times for two, and so on. */
    uint64_t region_bytes;
    /** True if region_free only records a region, which the caller frees later. bfc_get
     *  then does not replace free regions by a larger one: it returns TRYST_E_NOMEM, and
     *  the caller trims, frees and calls bfc_get again. */
    bool frees_later;
};

struct bfc_counts {
    uint64_t in_use_bytes, in_use; /**< bytes and number of chunks that are out */
    uint64_t high_water_bytes;     /**< largest in_use_bytes so far */
    uint64_t reserved_bytes, regions;
    uint64_t free_chunks, largest_free_bytes;
    uint64_t waiting_chunks; /**< free chunks that wait for a stream */
    uint64_t gets;           /**< calls of bfc_get that succeeded */
};

struct bfc;

tryst_status bfc_open(const struct bfc_params *params, struct bfc **bfc_p);
/** Give all regions back; returns the number of chunks that were still out. NULL is
 *  allowed. */
uint64_t bfc_close(struct bfc *bfc);

/** Add a region that the caller has allocated; region_free gives the region back. `bytes`
 *  is a multiple of BFC_GRAIN. TRYST_OK, or TRYST_E_NOMEM: the region stays the
 *  caller's. */
tryst_status bfc_region_add(struct bfc *bfc, void *data, uint64_t bytes);

/** Get a chunk of `bytes` (at least 1) that no work uses any more or, with `on_stream`,
 *  that at most earlier work of `stream` uses. Returns TRYST_OK; TRYST_E_NOMEM beyond the
 *  limit or when the backend has no memory; TRYST_E_INVALID for 0 bytes; or another
 *  status of the backend. */
tryst_status bfc_get(struct bfc *bfc, bool on_stream, void *stream, size_t bytes,
                     void **data_p);
/** Give a chunk back; with `on_stream`, work that is queued in `stream` may still use the
 *  chunk. False if `data` is not a chunk of this allocator, or not out. */
bool bfc_put(struct bfc *bfc, bool on_stream, void *stream, void *data);

/** Note that work queued in `stream` so far uses a chunk that is out: the chunk then also
 *  waits for that work, whatever stream bfc_put names. False if `data` is not a chunk of
 *  this allocator or not out, or if the backend has no events. */
bool bfc_use(struct bfc *bfc, void *stream, void *data);
/** Write whether a chunk that is out is settled: all work that bfc_use noted has passed,
 *  and so has the work of the stream that had the chunk before. False, with `*settled_p`
 *  unchanged, if `data` is not a chunk of this allocator, or not out. */
bool bfc_is_settled(struct bfc *bfc, const void *data, bool *settled_p);

/** Forget a stream's handle, which is about to name another stream or none: from now on
 *  only events decide about the chunks that wait for this stream. */
void bfc_stream_forget(struct bfc *bfc, void *stream);

/** Give back the regions that are wholly free and that no stream uses; returns their
 *  bytes. */
uint64_t bfc_trim(struct bfc *bfc);

/** Return the size of the largest request without a stream that bfc_get would grant now,
 *  provided that the backend has memory for it. */
uint64_t bfc_would_fit(struct bfc *bfc);

void bfc_counts(const struct bfc *bfc, struct bfc_counts *counts_p);
bool bfc_is_valid(const struct bfc *bfc);

#endif
