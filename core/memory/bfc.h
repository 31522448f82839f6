/* SPDX-License-Identifier: Apache-2.0 */
/** @file bfc.h
 *  Memory that somebody else owns, cut into pieces: best fit with coalescing.
 *
 *  Idea: memory of a device is expensive to allocate and to free (the driver waits for the device),
 *  so it is taken in a few large *regions* and cut here. A request gets the smallest free *chunk* that
 *  holds it, the rest is split off, and what is freed grows together with its free neighbours. The
 *  bytes themselves are never touched: bookkeeping lies in host memory, so the same code serves
 *  device, pinned and registered memory, and all of it is tested on the host. After Doug Lea's
 *  allocator by way of TensorFlow's BFCAllocator (tensorflow/core/common_runtime/bfc_allocator.h).
 *
 *  Streams: what was freed while work of a stream may still use it is given out again in that same
 *  stream at once (its work comes later there), and to others when an event that was recorded when it
 *  was freed has passed. Chunks grow together only when they wait for nothing, or for the same stream.
 *
 *  Invariants (bfc_is_valid): the chunks of a region lie side by side and cover it; no two free
 *  neighbours wait for nothing; every free chunk is in the list of its size; the counts are the sums.
 *
 *  No locks: the caller serialises. Callers: transports/memory/memory_pool.c.
 */
#ifndef TRYST_CORE_BFC_H
#define TRYST_CORE_BFC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tryst/status.h"

/** Chunks are multiples of this, and so aligned (a device's coalesced access, a cache line). */
#define BFC_GRAIN 256

/** Where regions come from, and events. */
struct bfc_backend {
    /** TRYST_OK, or why not (TRYST_E_NOMEM: a smaller one is tried). */
    tryst_status (*region_alloc)(void *arg, size_t bytes, void **data_p);
    void (*region_free)(void *arg, void *data, size_t bytes);
    /** Events; both NULL where nothing is freed after a stream. event_record: an event that passes
     *  when `stream` has done what was queued before. event_passed: it is given back when true. */
    tryst_status (*event_record)(void *arg, void *stream, void **event_p);
    bool (*event_passed)(void *arg, void *event);
    /** Give one back that nobody will ask about again. */
    void (*event_drop)(void *arg, void *event);
};

struct bfc_params {
    const struct bfc_backend *backend;
    void *arg;
    uint64_t limit_bytes; /**< of all regions together; 0: none */
    uint64_t
        region_bytes; /**< of the first region; twice as large for each that stands; 0: 2 MiB */
    /** region_free only notes what to free. So bfc_get does not make a region in the place of free
     *  ones: TRYST_E_NOMEM, and the caller trims, frees and asks again. */
    bool frees_later;
};

struct bfc_counts {
    uint64_t in_use_bytes, in_use; /**< chunks that are out */
    uint64_t high_water_bytes;     /**< most in_use_bytes ever */
    uint64_t reserved_bytes, regions;
    uint64_t free_chunks, largest_free_bytes;
    uint64_t waiting_chunks; /**< of the free ones: those that wait for a stream */
    uint64_t gets;           /**< ever */
};

struct bfc;

tryst_status bfc_open(const struct bfc_params *params, struct bfc **bfc_p);
/** Gives all regions back; returns how many chunks were still out. NULL is allowed. */
uint64_t bfc_close(struct bfc *bfc);

/** `bytes` (at least 1) that nothing uses any more, or, with `on_stream`, that at most earlier work of
 *  `stream` uses. TRYST_OK; TRYST_E_NOMEM: not within the limit, or the backend has no more;
 *  another status of the backend's. */
tryst_status bfc_get(struct bfc *bfc, bool on_stream, void *stream, size_t bytes,
                     void **data_p);
/** Give a chunk back; with `on_stream`, work that is queued in `stream` may still use it. False: it is
 *  none of ours, or not out. */
bool bfc_put(struct bfc *bfc, bool on_stream, void *stream, void *data);

/** Work that is queued in `stream` now uses a chunk that is out: whoever puts it, it waits for that too.
 *  False: it is none of ours, or not out, or there are no events here. */
bool bfc_use(struct bfc *bfc, void *stream, void *data);
/** Of a chunk that is out: has all work passed that was told of, and that of the stream which had it
 *  before? False as in bfc_use. */
bool bfc_is_settled(struct bfc *bfc, const void *data, bool *settled_p);

/** A stream's handle will be used for another stream, or for none: only events count from now on. */
void bfc_stream_forget(struct bfc *bfc, void *stream);

/** Give back the regions that are wholly free and that no stream uses; returns their bytes. */
uint64_t bfc_trim(struct bfc *bfc);

/** The largest request that would be granted now to who has no stream, if the backend has memory. */
uint64_t bfc_would_fit(struct bfc *bfc);

void bfc_counts(const struct bfc *bfc, struct bfc_counts *counts_p);
bool bfc_is_valid(const struct bfc *bfc);

#endif
