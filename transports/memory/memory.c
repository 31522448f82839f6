/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions and their registrations.
 *
 * One idea: regions lie in an array sorted by address, each with the highest end of all
 * regions up to it. So the region that covers some bytes is found by bisection even where
 * regions overlap.
 * Invariant: under the lock, entries are sorted by mem->data, and entries[i].reach is the
 * highest end (data + bytes) of entries 0..i.
 */
#include "transports/memory/memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/os/fork.h"

struct memory_place {
    struct tryst_mem *mem;
    uintptr_t reach; /* highest end of all regions up to this one */
};

struct memory_cache {
    memory_load_fn *load; /* NULL: only published kinds */
    const struct tryst_host *host;
    struct memory_domain domain;
    uint64_t fork_generation;
    pthread_mutex_t lock;
    struct memory_place *entries;
    _Atomic(size_t) count; /* written under the lock */
    size_t room;
    uint64_t next_id;
};

static uintptr_t region_start(const struct tryst_mem *mem)
{
    return (uintptr_t)mem->data;
}

static uintptr_t region_end(const struct tryst_mem *mem)
{
    return (uintptr_t)mem->data + mem->bytes;
}

tryst_status memory_cache_open(memory_load_fn *load, const struct tryst_host *host,
                               struct memory_cache **cache_p)
{
    struct memory_cache *cache = mem_zalloc(sizeof *cache);
    if (!cache)
        return TRYST_E_NOMEM;
    if (pthread_mutex_init(&cache->lock, NULL) != 0) {
        mem_free(cache);
        return TRYST_E_NOMEM;
    }
    cache->load = load;
    cache->host = host;
    cache->next_id = 1;
    cache->fork_generation = fork_generation();
    *cache_p = cache;
    return TRYST_OK;
}

void memory_cache_guard(struct memory_cache *cache, const struct memory_domain *domain)
{
    cache->domain = *domain;
}

size_t memory_cache_close(struct memory_cache *cache)
{
    size_t left = cache->count;
    cache->domain.enter = NULL; /* no other thread is left */
    while (cache->count > 0)
        memory_release(cache->entries[cache->count - 1].mem);
    pthread_mutex_destroy(&cache->lock);
    mem_free(cache->entries);
    mem_free(cache);
    return left;
}

/* Get the index of the first region that starts beyond `address`. */
static size_t upper_bound(const struct memory_cache *cache, uintptr_t address)
{
    size_t low = 0, high = cache->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (region_start(cache->entries[middle].mem) <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void reach_update(struct memory_cache *cache, size_t from)
{
    for (size_t i = from; i < cache->count; i++) {
        uintptr_t before = i ? cache->entries[i - 1].reach : 0;
        uintptr_t end = region_end(cache->entries[i].mem);
        cache->entries[i].reach = end > before ? end : before;
    }
}

/* Add a region; the cache owns it from here on. */
static tryst_status cache_add(struct memory_cache *cache, struct tryst_mem *mem)
{
    pthread_mutex_lock(&cache->lock);
    bool room = mem_reserve(&cache->entries, &cache->room, cache->count + 1,
                            sizeof *cache->entries);
    if (room) {
        size_t at = upper_bound(cache, region_start(mem));
        struct memory_place *place = cache->entries + at;
        memmove(place + 1, place, (cache->count - at) * sizeof *place);
        place->mem = mem;
        cache->count++;
        mem->id = cache->next_id++;
        reach_update(cache, at);
    }
    pthread_mutex_unlock(&cache->lock);
    return room ? TRYST_OK : TRYST_E_NOMEM;
}

static void cache_remove(struct memory_cache *cache, const struct tryst_mem *mem)
{
    pthread_mutex_lock(&cache->lock);
    size_t at = upper_bound(cache, region_start(mem));
    while (at > 0 && cache->entries[at - 1].mem != mem)
        at--;
    if (at > 0) {
        struct memory_place *place = cache->entries + at - 1;
        memmove(place, place + 1, (cache->count - at) * sizeof *place);
        cache->count--;
        reach_update(cache, at - 1);
    }
    pthread_mutex_unlock(&cache->lock);
}

/* Make a copy of `model` and add it to the cache. */
static tryst_status region_add(const struct tryst_mem *model, struct tryst_mem **mem_p)
{
    struct tryst_mem *mem = mem_alloc(sizeof *mem);
    if (!mem)
        return TRYST_E_NOMEM;
    *mem = *model;
    tryst_status status = cache_add(mem->cache, mem);
    if (status != TRYST_OK) {
        mem_free(mem);
        return status;
    }
    *mem_p = mem;
    return TRYST_OK;
}

static tryst_status kind_find(const struct memory_cache *cache, tryst_memory_kind kind,
                              const struct memory_ops **ops_p)
{
    char text[MEMORY_TEXT_MAX];
    *ops_p = memory_ops_get(kind);
    if (*ops_p)
        return TRYST_OK;
    return cache->load ? cache->load(cache->host, kind, ops_p, text)
                       : TRYST_E_UNSUPPORTED;
}

tryst_status memory_register(struct memory_cache *cache, void *data, size_t bytes,
                             tryst_memory_kind kind, int32_t device,
                             struct tryst_mem **mem_p)
{
    struct tryst_mem model = {
        .cache = cache, .data = data, .bytes = bytes, .device = device, .fd = -1};
    tryst_status status = kind_find(cache, kind, &model.ops);
    if (status != TRYST_OK)
        return status;
    if (!data || bytes == 0 || bytes > UINTPTR_MAX - (uintptr_t)data)
        return TRYST_E_INVALID;
    return region_add(&model, mem_p);
}

tryst_status memory_alloc(struct memory_cache *cache, size_t bytes,
                          tryst_memory_kind kind, int32_t device,
                          struct tryst_mem **mem_p)
{
    struct tryst_mem model = {
        .cache = cache, .bytes = bytes, .device = device, .fd = -1, .owned = true};
    tryst_status status = kind_find(cache, kind, &model.ops);
    if (status != TRYST_OK)
        return status;
    if (bytes == 0)
        return TRYST_E_INVALID;
    status = model.ops->alloc(device, bytes, &model.data, &model.fd);
    if (status != TRYST_OK)
        return status;
    status = region_add(&model, mem_p);
    if (status != TRYST_OK)
        model.ops->free(device, model.data, bytes, model.fd);
    return status;
}

static void registration_undo(struct tryst_mem *mem, unsigned index)
{
    struct rail *rail = mem->registrations[index].rail;
    if (!rail)
        return;
    if (mem->registrations[index].undo)
        mem->registrations[index].undo(rail, mem->registrations[index].handle);
    mem->registrations[index].rail = NULL;
}

/* True if a rail has a registration of the region. (Most short-lived regions are never
 * used on a rail.) Takes the lock, under which memory_rail_forget undoes the
 * registrations of a closing rail. */
static bool is_registered(const struct tryst_mem *mem)
{
    bool found = false;
    pthread_mutex_lock(&mem->cache->lock);
    for (unsigned i = 0; i < MEMORY_RAILS_MAX; i++)
        found = found || mem->registrations[i].rail;
    pthread_mutex_unlock(&mem->cache->lock);
    return found;
}

static void registrations_undo(struct tryst_mem *mem)
{
    const struct memory_domain *domain = &mem->cache->domain;
    enum memory_entry entry = domain->enter ? domain->enter(domain->arg) : MEMORY_INSIDE;
    for (unsigned i = 0; i < MEMORY_RAILS_MAX; i++)
        registration_undo(mem, i);
    if (entry == MEMORY_ENTERED)
        domain->leave(domain->arg);
}

void memory_release(struct tryst_mem *mem)
{
    if (!mem || mem->cache->fork_generation != fork_generation_now())
        return;
    if (is_registered(mem))
        registrations_undo(mem);
    cache_remove(mem->cache, mem);
    if (mem->owned)
        mem->ops->free(mem->device, mem->data, mem->bytes, mem->fd);
    mem_free(mem);
}

struct tryst_mem *memory_find(struct memory_cache *cache, const void *data, size_t bytes)
{
    uintptr_t start = (uintptr_t)data, end = start + bytes;
    struct tryst_mem *found = NULL;
    /* relaxed: a caller that has a region got it from the thread that made it, and so
     * sees a count that is not 0. */
    if (end < start || !atomic_load_explicit(&cache->count, memory_order_relaxed))
        return NULL;
    pthread_mutex_lock(&cache->lock);
    size_t at = upper_bound(cache, start);
    /* Go back while a region at this index or below it still reaches `end`. */
    for (; at > 0 && !found && cache->entries[at - 1].reach >= end; at--)
        if (region_end(cache->entries[at - 1].mem) >= end)
            found = cache->entries[at - 1].mem;
    pthread_mutex_unlock(&cache->lock);
    return found;
}

bool memory_covers(const struct memory_cache *cache, const struct tryst_mem *mem,
                   tryst_memory_kind kind, int32_t device, const void *data, size_t bytes)
{
    uintptr_t start = (uintptr_t)data;
    if (mem->cache != cache || mem->ops->kind != kind ||
        (mem->ops->on_device && mem->device != device))
        return false;
    return start >= region_start(mem) && start <= region_end(mem) &&
           bytes <= region_end(mem) - start;
}

void memory_rail_forget(struct memory_cache *cache, struct rail *rail)
{
    pthread_mutex_lock(&cache->lock);
    for (size_t i = 0; i < cache->count; i++)
        for (unsigned j = 0; j < MEMORY_RAILS_MAX; j++)
            if (cache->entries[i].mem->registrations[j].rail == rail)
                registration_undo(cache->entries[i].mem, j);
    pthread_mutex_unlock(&cache->lock);
}
