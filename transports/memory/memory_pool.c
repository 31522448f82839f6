/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tryst/pool.h: core/memory/bfc.h over the memory of a device, a driver's pinned memory,
 * or registered host memory.
 *
 * Idea: bfc.c has the policy and touches no memory; this file supplies regions and
 * events. Events are kept for reuse, since opening one may wait for the device. Trimmed
 * regions are freed after the lock is released: undoing a registration waits for the
 * thread that makes progress, which may be in a callback that calls this pool.
 * Invariant: under the lock, `regions` lists the regions of the pool, each registered,
 * and `dropped` lists regions that bfc.c has given back and that are not freed yet.
 */
#include "transports/memory/memory_pool.h"
#include "core/text/refuse.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/memory/bfc.h"
#include "core/text/params.h"
#include "transports/memory/memory.h"

enum { NAME_BYTES = 48 };

struct pool_region {
    struct pool_region *next;
    void *data;
    size_t bytes;
    struct tryst_mem *mem; /* registration of the region */
};

struct pool_event {
    struct pool_event *next; /* in pool->idle */
    void *event;
};

struct tryst_pool {
    pthread_mutex_t lock;
    struct bfc *bfc;
    struct memory_cache *cache;
    /* memory ops of the device; NULL for registered memory */
    const struct memory_ops *ops;
    int32_t ordinal;
    tryst_pool_params params;
    char name[NAME_BYTES];
    struct pool_region *regions;
    struct pool_region *dropped;
    struct pool_event *idle; /* events for reuse */
    /* newest failure to record or to poll an event; TRYST_OK: none so far */
    tryst_status lost;
};

/* --- making regions --- */

static tryst_status memory_make(struct tryst_pool *pool, size_t bytes, void **data_p)
{
    int fd;
    if (pool->params.kind == TRYST_POOL_DEVICE)
        return pool->ops->alloc(pool->ordinal, bytes, data_p, &fd);
    return pool->ops->pinned_alloc(pool->ordinal, bytes, data_p);
}

static void memory_drop(struct tryst_pool *pool, void *data, size_t bytes)
{
    if (pool->params.kind == TRYST_POOL_DEVICE)
        pool->ops->free(pool->ordinal, data, bytes, -1);
    else
        pool->ops->pinned_free(pool->ordinal, data, bytes);
}

/* Allocate the memory of a region by the pool's kind, and register it. */
static tryst_status registered_make(struct tryst_pool *pool, size_t bytes,
                                    struct tryst_mem **mem_p)
{
    bool is_device = pool->params.kind == TRYST_POOL_DEVICE;
    void *data = NULL;
    if (pool->params.kind == TRYST_POOL_REGISTERED)
        return memory_alloc(pool->cache, bytes, TRYST_MEMORY_HOST, 0, mem_p);
    tryst_status status = memory_make(pool, bytes, &data);
    if (status != TRYST_OK)
        return status;
    status = memory_register(pool->cache, data, bytes,
                             is_device ? pool->ops->kind : TRYST_MEMORY_HOST,
                             is_device ? pool->ordinal : 0, mem_p);
    if (status != TRYST_OK)
        memory_drop(pool, data, bytes);
    return status;
}

static tryst_status region_alloc(void *arg, size_t bytes, void **data_p)
{
    struct tryst_pool *pool = arg;
    struct pool_region *region = mem_zalloc(sizeof *region);
    if (!region)
        return TRYST_E_NOMEM;
    tryst_status status = registered_make(pool, bytes, &region->mem);
    if (status != TRYST_OK) {
        mem_free(region);
        return status;
    }
    region->data = region->mem->data;
    region->bytes = bytes;
    region->next = pool->regions;
    pool->regions = region;
    if (pool->params.region_fn)
        pool->params.region_fn(pool->params.region_arg, region->data, bytes, true);
    *data_p = region->data;
    return TRYST_OK;
}

static void region_free(void *arg, void *data, size_t bytes)
{
    struct tryst_pool *pool = arg;
    struct pool_region **at = &pool->regions;
    while ((*at)->data != data)
        at = &(*at)->next;
    struct pool_region *region = *at;
    *at = region->next;
    if (pool->params.region_fn)
        pool->params.region_fn(pool->params.region_arg, data, bytes, false);
    region->next = pool->dropped;
    pool->dropped = region;
}

/* Release the lock, then free the regions that were dropped under it. */
static void pool_unlock(struct tryst_pool *pool)
{
    struct pool_region *dropped = pool->dropped, *next;
    pool->dropped = NULL;
    pthread_mutex_unlock(&pool->lock);
    for (; dropped; dropped = next) {
        next = dropped->next;
        memory_release(dropped->mem);
        if (pool->params.kind != TRYST_POOL_REGISTERED)
            memory_drop(pool, dropped->data, dropped->bytes);
        mem_free(dropped);
    }
}

/* --- events --- */

static struct pool_event *pool_event_get(struct tryst_pool *pool)
{
    struct pool_event *event = pool->idle;
    if (event) {
        pool->idle = event->next;
        return event;
    }
    event = mem_zalloc(sizeof *event);
    if (event && pool->ops->event_open(pool->ordinal, &event->event) != TRYST_OK) {
        mem_free(event);
        event = NULL;
    }
    return event;
}

static void event_drop(void *arg, void *item)
{
    struct tryst_pool *pool = arg;
    struct pool_event *event = item;
    event->next = pool->idle;
    pool->idle = event;
}

static tryst_status event_record(void *arg, void *stream, void **event_p)
{
    struct tryst_pool *pool = arg;
    struct pool_event *event = pool_event_get(pool);
    if (!event)
        return pool->lost = TRYST_E_NOMEM;
    tryst_status status = pool->ops->event_record(pool->ordinal, stream, event->event);
    if (status == TRYST_OK) {
        *event_p = event;
        return status;
    }
    pool->lost = status;
    event_drop(pool, event);
    return status;
}

static bool event_passed(void *arg, void *item)
{
    struct tryst_pool *pool = arg;
    struct pool_event *event = item;
    tryst_status status = pool->ops->event_query(pool->ordinal, event->event);
    /* on a failed device the event never counts as passed, so its piece stays waiting */
    if (status != TRYST_OK && status != TRYST_IN_PROGRESS)
        pool->lost = status;
    if (status == TRYST_OK)
        event_drop(pool, event);
    return status == TRYST_OK;
}

static const struct bfc_backend with_streams = {region_alloc, region_free, event_record,
                                                event_passed, event_drop};
static const struct bfc_backend without_streams = {.region_alloc = region_alloc,
                                                   .region_free = region_free};

/* --- opening and closing --- */

static tryst_status params_check(const tryst_pool_params *params)
{
    const char *wrong = NULL;
    bool has_device =
        params->kind == TRYST_POOL_DEVICE || params->kind == TRYST_POOL_PINNED;
    if (!has_device && params->kind != TRYST_POOL_REGISTERED)
        wrong = "kind must be DEVICE, PINNED or REGISTERED";
    else if (has_device != (params->device != NULL))
        wrong = "DEVICE and PINNED need a device, REGISTERED takes none";
    if (!wrong)
        return TRYST_OK;
    return refuse(TRYST_E_INVALID, "cannot open a pool: %s", wrong);
}

tryst_status memory_pool_open(struct memory_cache *cache, const tryst_pool_params *given,
                              tryst_pool **pool_p)
{
    struct err err = ERR_INIT;
    tryst_pool_params own, *params = &own;
    tryst_status status = params_read(&own, sizeof own, given, "tryst_pool_params", &err);
    if (status != TRYST_OK)
        return refuse_err(&err, status);
    status = params_check(params);
    if (status != TRYST_OK)
        return status;
    struct tryst_pool *pool = mem_zalloc(sizeof *pool);
    if (!pool)
        return refuse_nomem("open a pool");
    struct bfc_params inner = {.backend =
                                   params->device ? &with_streams : &without_streams,
                               .arg = pool,
                               .limit_bytes = params->limit_bytes,
                               .region_bytes = params->region_bytes,
                               .frees_later = true};
    status = bfc_open(&inner, &pool->bfc);
    if (status != TRYST_OK || pthread_mutex_init(&pool->lock, NULL) != 0) {
        (void)bfc_close(pool->bfc);
        mem_free(pool);
        return refuse_nomem("open a pool");
    }
    pool->cache = cache;
    pool->params = *params;
    pool->ops = params->device ? params->device->ops : NULL;
    pool->ordinal = params->device ? params->device->ordinal : 0;
    (void)snprintf(pool->name, sizeof pool->name, "%s",
                   params->name ? params->name : "pool");
    *pool_p = pool;
    return TRYST_OK;
}

uint64_t tryst_pool_close(tryst_pool *pool)
{
    if (!pool)
        return 0;
    pthread_mutex_lock(&pool->lock);
    uint64_t left = bfc_close(pool->bfc);
    pool_unlock(pool);
    while (pool->idle) {
        struct pool_event *event = pool->idle;
        pool->idle = event->next;
        pool->ops->event_close(pool->ordinal, event->event);
        mem_free(event);
    }
    pthread_mutex_destroy(&pool->lock);
    mem_free(pool);
    return left;
}

/* --- get and put --- */

static void kind_write(const struct tryst_pool *pool, char *text, size_t capacity)
{
    if (!pool->ops)
        (void)snprintf(text, capacity, "registered host memory");
    else
        (void)snprintf(text, capacity, "%s of %s device %d",
                       pool->params.kind == TRYST_POOL_DEVICE ? "memory"
                                                              : "pinned host memory",
                       pool->ops->name, (int)pool->ordinal);
}

/* Format a failed allocation: what was requested, from where, and what would fit. */
static void failure_format(struct tryst_pool *pool, size_t bytes, tryst_status status,
                           char *error, size_t capacity)
{
    char kind[64], limit[48] = "no limit";
    struct bfc_counts counts;
    const char *reason = pool->ops ? pool->ops->error_text() : "";
    bfc_counts(pool->bfc, &counts);
    kind_write(pool, kind, sizeof kind);
    if (pool->params.limit_bytes)
        (void)snprintf(limit, sizeof limit, "a limit of %llu",
                       (unsigned long long)pool->params.limit_bytes);
    uint64_t fits = bfc_would_fit(pool->bfc);
    int at = snprintf(
        error, capacity,
        "%s: cannot allocate %zu bytes of %s: %llu are in use, of %llu in the pool (%s)",
        pool->name, bytes, kind, (unsigned long long)counts.in_use_bytes,
        (unsigned long long)counts.reserved_bytes, limit);
    if (at < 0 || (size_t)at >= capacity)
        return;
    if (status == TRYST_E_NOMEM && fits < bytes)
        (void)snprintf(error + at, capacity - (size_t)at,
                       "; at most %llu would fit: raise the limit, or use less at a time",
                       (unsigned long long)fits);
    else
        (void)snprintf(error + at, capacity - (size_t)at, "; %s",
                       *reason ? reason : "the system has no more memory");
}

static tryst_status get(tryst_pool *pool, bool on_stream, void *stream, size_t bytes,
                        void **data_p)
{
    if (!pool || !data_p)
        return refuse_null("get from a pool", pool ? "data_p" : "pool");
    if (bytes == 0)
        return refuse(TRYST_E_INVALID, "cannot get from a pool: bytes is 0");
    on_stream = on_stream && pool->ops;
    pthread_mutex_lock(&pool->lock);
    tryst_status status = bfc_get(pool->bfc, on_stream, stream, bytes, data_p);
    while (status == TRYST_E_NOMEM && bfc_trim(pool->bfc) > 0) {
        pool_unlock(pool); /* frees the trimmed regions: room for another one */
        pthread_mutex_lock(&pool->lock);
        status = bfc_get(pool->bfc, on_stream, stream, bytes, data_p);
    }
    char text[ERR_TEXT_BYTES] = "";
    if (status != TRYST_OK) {
        failure_format(pool, bytes, status, text, sizeof text);
        (void)refuse(status, "%s", text);
    }
    pool_unlock(pool);
    return status;
}

tryst_status tryst_pool_alloc(tryst_pool *pool, size_t bytes, void **data_p)
{
    return get(pool, false, NULL, bytes, data_p);
}

tryst_status tryst_pool_alloc_on(tryst_pool *pool, void *stream, size_t bytes,
                                 void **data_p)
{
    return get(pool, true, stream, bytes, data_p);
}

/* Refuse `data`, which the pool has not given out: "cannot put into pool X: ...". */
static tryst_status refuse_foreign(const tryst_pool *pool, const char *call,
                                   const void *data)
{
    return refuse(TRYST_E_INVALID, "cannot %s %s: %p is not an allocation of this pool",
                  call, pool->name, data);
}

static tryst_status put(tryst_pool *pool, bool on_stream, void *stream, void *data)
{
    if (!pool)
        return refuse_null("put into a pool", "pool");
    pthread_mutex_lock(&pool->lock);
    bool was_out = bfc_put(pool->bfc, on_stream, stream, data);
    pthread_mutex_unlock(&pool->lock);
    return was_out ? TRYST_OK : refuse_foreign(pool, "put into", data);
}

tryst_status tryst_pool_free(tryst_pool *pool, void *data)
{
    return put(pool, false, NULL, data);
}

tryst_status tryst_pool_free_after(tryst_pool *pool, void *stream, void *data)
{
    return put(pool, true, stream, data);
}

tryst_status tryst_pool_use(tryst_pool *pool, void *stream, void *data)
{
    if (!pool)
        return refuse_null("use a piece of a pool", "pool");
    pthread_mutex_lock(&pool->lock);
    bool known = bfc_use(pool->bfc, stream, data);
    pthread_mutex_unlock(&pool->lock);
    return known ? TRYST_OK : refuse_foreign(pool, "use a piece of", data);
}

tryst_status tryst_pool_test(tryst_pool *pool, const void *data)
{
    bool settled = false;
    if (!pool)
        return refuse_null("test a piece of a pool", "pool");
    pthread_mutex_lock(&pool->lock);
    bool known = bfc_is_settled(pool->bfc, data, &settled);
    tryst_status lost = pool->lost;
    pthread_mutex_unlock(&pool->lock);
    if (!known)
        return refuse_foreign(pool, "test a piece of", data);
    if (settled)
        return TRYST_OK;
    return lost != TRYST_OK ? lost : TRYST_IN_PROGRESS;
}

void tryst_pool_stream_forget(tryst_pool *pool, void *stream)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    bfc_stream_forget(pool->bfc, stream);
    pthread_mutex_unlock(&pool->lock);
}

uint64_t tryst_pool_trim(tryst_pool *pool)
{
    if (!pool)
        return 0;
    pthread_mutex_lock(&pool->lock);
    uint64_t bytes = bfc_trim(pool->bfc);
    pool_unlock(pool);
    return bytes;
}

tryst_status tryst_pool_count(tryst_pool *pool, tryst_pool_counts *counts_p)
{
    struct bfc_counts counts;
    if (!pool || !counts_p)
        return refuse_null("count a pool", pool ? "counts_p" : "pool");
    if (!tryst_sized_is_set(counts_p))
        return refuse_unsized("count a pool", "counts_p");
    pthread_mutex_lock(&pool->lock);
    bfc_counts(pool->bfc, &counts);
    pthread_mutex_unlock(&pool->lock);
    const tryst_pool_counts now = {.in_use_bytes = counts.in_use_bytes,
                                   .in_use = counts.in_use,
                                   .high_water_bytes = counts.high_water_bytes,
                                   .reserved_bytes = counts.reserved_bytes,
                                   .regions = counts.regions,
                                   .free_pieces = counts.free_chunks,
                                   .largest_free_bytes = counts.largest_free_bytes,
                                   .waiting_pieces = counts.waiting_chunks,
                                   .allocations = counts.gets};
    (void)tryst_sized_write(counts_p, &now, sizeof now);
    return TRYST_OK;
}
