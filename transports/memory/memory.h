/* SPDX-License-Identifier: Apache-2.0 */
/** @file memory.h
 *  Regions of memory and their registrations.
 *
 *  A *region* (tryst_mem) is a range of one kind of memory (memory_ops.h) that was
 *  registered, or allocated here so that peers of this machine can map it. Each rail
 *  keeps at most one registration per region, in `registrations[rail->index]`, made when
 *  a bulk first uses the region on that rail and undone when the region is released.
 *
 *  Domain: any thread makes and releases regions, under the cache's lock. Registrations
 *  per rail are made and undone in the progress domain, which a release enters for that
 *  step alone (struct memory_domain): freeing memory may wait for a device, and stays
 *  outside.
 */
#ifndef TRYST_TRANSPORTS_MEMORY_MEMORY_H
#define TRYST_TRANSPORTS_MEMORY_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transports/memory/memory_ops.h"
#include "tryst/types.h"

/** Most rails per context: each region has an array of registrations, one per rail. */
#define MEMORY_RAILS_MAX 16

struct memory_cache;
struct rail;
struct tryst_host;

/** A region. Public handle tryst_mem. */
struct tryst_mem {
    struct memory_cache *cache;
    const struct memory_ops *ops;
    void *data;
    size_t bytes;
    int32_t device;
    int fd;      /**< descriptor that maps the same bytes (tryst_mem_alloc), or -1 */
    bool owned;  /**< allocated by ops->alloc: a release frees the bytes */
    uint64_t id; /**< unique in the context, never reused: names the region to peers */
    struct {
        struct rail *rail;
        void *handle;
        void (*undo)(struct rail *rail, void *handle); /**< NULL: nothing to undo */
    } registrations[MEMORY_RAILS_MAX];
};

/** How a release enters the progress domain. */
enum memory_entry {
    MEMORY_ENTERED, /**< `leave` must follow */
    MEMORY_INSIDE   /**< this thread was inside (called by a transport or a callback) */
};
struct memory_domain {
    enum memory_entry (*enter)(void *arg); /**< NULL: each release is called inside */
    void (*leave)(void *arg);
    void *arg;
};

/** Load the memory ops of a kind that is not published yet, and publish them; `text`
 *  (MEMORY_TEXT_MAX) receives what was found or the reason. (transports/device.h:
 *  memory_ops_load) */
typedef tryst_status memory_load_fn(const struct tryst_host *host, tryst_memory_kind kind,
                                    const struct memory_ops **ops_p, char *text);

/** Open a context's cache. The memory ops of a kind that is not published yet come from
 *  `load`, which gets `host`; NULL: such kinds are refused. */
tryst_status memory_cache_open(memory_load_fn *load, const struct tryst_host *host,
                               struct memory_cache **cache_p);
/** Set how releases enter the progress domain, before a second thread uses the cache. */
void memory_cache_guard(struct memory_cache *cache, const struct memory_domain *domain);
/** Close the cache. Releases every region that is left; returns how many there were. */
size_t memory_cache_close(struct memory_cache *cache);

tryst_status memory_register(struct memory_cache *cache, void *data, size_t bytes,
                             tryst_memory_kind kind, int32_t device,
                             struct tryst_mem **mem_p);
tryst_status memory_alloc(struct memory_cache *cache, size_t bytes,
                          tryst_memory_kind kind, int32_t device,
                          struct tryst_mem **mem_p);
/** Undo memory_register or memory_alloc; NULL is allowed. Registrations on rails are
 *  undone first, in the progress domain. The call waits for that domain, so the caller
 *  must not hold a lock that a thread takes inside it. Does nothing in a forked child:
 *  the region is the parent's. */
void memory_release(struct tryst_mem *mem);
/** Find a region that covers [data, data + bytes). NULL: no region does. */
struct tryst_mem *memory_find(struct memory_cache *cache, const void *data, size_t bytes);
/** True if `mem` is a region of `cache`, in memory of `kind` (a device's: of `device`),
 *  that covers [data, data + bytes). Takes no lock. */
bool memory_covers(const struct memory_cache *cache, const struct tryst_mem *mem,
                   tryst_memory_kind kind, int32_t device, const void *data,
                   size_t bytes);
/** Undo all registrations on `rail`, before the rail closes. */
void memory_rail_forget(struct memory_cache *cache, struct rail *rail);

#endif
