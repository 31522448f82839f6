/* SPDX-License-Identifier: Apache-2.0 */
/** @file memory.h
 *  Memory kinds, regions and their registrations.
 *
 *  A *kind* is a row of functions; host memory is the first row, devices are added
 *  behind. A *region* (tryst_mem) is a range of one kind that was registered, or
 *  allocated by us in a way that peers of this machine can map. Each rail keeps at most
 *  one registration per region, in `registrations[rail->index]`, made when a bulk first
 *  uses the region on that rail and undone when the region is released.
 *
 *  Domain: regions are made and released by any thread under the cache's lock;
 *  registrations per rail are made in the progress domain.
 */
#ifndef TRANSPORTS_MEMORY_H
#define TRANSPORTS_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tryst/types.h"

/** Rails per context at most: registrations are an array in the region. */
#define MEMORY_RAILS_MAX 16

struct memory_ops {
    const char *name; /**< "host" */
    tryst_memory_kind kind;
    /** Allocate `bytes`, aligned to a page; *fd_p receives a descriptor that maps the
     *  same bytes from offset 0 (sealed against shrinking), or -1. TRYST_OK,
     *  TRYST_E_NOMEM. */
    tryst_status (*alloc)(int32_t device, size_t bytes, void **data_p, int *fd_p);
    void (*free)(int32_t device, void *data, size_t bytes, int fd);
    /** Copy within this kind; completes before returning for host. `stream` is a device
     *  stream or NULL. */
    tryst_status (*copy_async)(int32_t device, void *stream, void *dst, const void *src,
                               size_t bytes);
    /** Device events; host answers TRYST_OK at once. event_query: TRYST_OK or
     *  TRYST_IN_PROGRESS. */
    tryst_status (*event_record)(int32_t device, void *stream, void *event);
    tryst_status (*event_query)(int32_t device, void *event);
    tryst_status (*stream_wait)(int32_t device, void *stream, void *event);
};

/** The row of `kind`, or NULL. */
const struct memory_ops *memory_ops_get(tryst_memory_kind kind);

struct memory_cache;
struct rail;

/** A region. Public handle tryst_mem. */
struct tryst_mem {
    struct memory_cache *cache;
    const struct memory_ops *ops;
    void *data;
    size_t bytes;
    int32_t device;
    int fd;      /**< maps the same bytes (tryst_mem_alloc), or -1 */
    bool owned;  /**< made by ops->alloc: release frees the bytes */
    uint64_t id; /**< unique in the context, never reused: names the region to peers */
    struct tryst_mem *next;
    struct {
        struct rail *rail;
        void *handle;
    } registrations[MEMORY_RAILS_MAX];
};

/** One cache per context. */
tryst_status memory_cache_open(struct memory_cache **cache_p);
/** Releases every region that is left; returns how many there were. */
size_t memory_cache_close(struct memory_cache *cache);

tryst_status memory_register(struct memory_cache *cache, void *data, size_t bytes,
                             tryst_memory_kind kind, int32_t device,
                             struct tryst_mem **mem_p);
tryst_status memory_alloc(struct memory_cache *cache, size_t bytes,
                          tryst_memory_kind kind, int32_t device,
                          struct tryst_mem **mem_p);
/** Undo either; registrations on rails are undone first (progress domain). */
void memory_release(struct tryst_mem *mem);
/** The region that covers [data, data + bytes), or NULL. */
struct tryst_mem *memory_find(struct memory_cache *cache, const void *data, size_t bytes);
/** This rail's registration of `mem`, made now if need be; NULL where the rail needs
 *  none. */
tryst_status memory_rail_handle(struct tryst_mem *mem, struct rail *rail,
                                void **handle_p);
/** Undo all registrations on `rail` (before it closes). */
void memory_rail_forget(struct memory_cache *cache, struct rail *rail);

#endif
