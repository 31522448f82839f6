/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pool of shadows.
 *
 * Idea: core/memory/bfc.h cuts *arenas* into shadows. An arena is a region of host memory
 * with a descriptor, so peers map it once and rails register it once; and it is pinned.
 * shadow_get only takes free pieces. The bytes that it misses are added up, and the
 * copier's thread pins an arena for them later. So a program that repeats its operations
 * soon gets pinned shadows alone, and pins nothing more.
 *
 * A take-over (takeover.h) needs pinned shadows. A shadow that was plain memory is pinned
 * alone then, and stays pinned until the close: to unpin may wait for a stream that waits
 * for a collective.
 *
 * Growth: an arena has the missed bytes rounded up to a power of two, so the arenas are
 * at most about twice what was ever used at a time; where streams wait for collectives,
 * which keeps as much free (shadows_reserve), about four times. At the limit, an arena
 * for a shadow that is larger than every arena may replace arenas that are free. This
 * happens at most once for each larger size, so the pool never pins and frees in turns.
 *
 * Invariant: under the lock, `arenas` has the regions of bfc.c, and `dropped` those that
 * bfc.c has given back and that are still pinned. The lock is never held during a call of
 * the driver, or of the memory cache.
 */
#include "shadows.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <unistd.h>

#include "core/log/log.h"
#include "core/memory/alloc.h"
#include "core/memory/bfc.h"
#include "core/memory/list.h"
#include "core/os/clock.h"
#include "transports/memory/memory.h"

/* Smallest arena: each one costs a pinning call, a descriptor and a mapping in each
 * peer. */
#define ARENA_MIN_BYTES (UINT64_C(16) << 20)
/* Arenas are multiples of a page of any machine. */
#define ARENA_GRAIN_BYTES (UINT64_C(64) << 10)
/* Time for which copies in flight go before pinning, which takes some 0.2 ms per MiB. */
#define PIN_DELAY_NS (20 * NS_PER_MS)
/* Time after a failure to pin before the next attempt. */
#define PIN_RETRY_NS (10 * NS_PER_S)

struct arena {
    struct list_node node;
    struct tryst_mem *mem;
    const struct memory_ops *ops; /* of the device for which it was pinned first */
    int32_t device;
};

/* Plain memory that shadow_pin has pinned, once its shadow is back: the record is in
 * the memory itself. */
struct lone {
    struct list_node node;
    const struct memory_ops *ops;
    int32_t device;
    uint64_t bytes;
};

/* Bytes that shadow_get has missed since the last arena. */
struct demand {
    uint64_t bytes;   /* beyond all arenas; 0: nothing was missed */
    uint64_t largest; /* bytes of the largest missed shadow */
    uint64_t since_ns;
    const struct memory_ops *ops;
    int32_t device;
};

struct shadows {
    pthread_mutex_t lock;
    struct memory_cache *cache;
    const struct log *log;
    uint64_t limit_bytes;
    struct bfc *bfc;
    struct list arenas, dropped;
    struct list lone;       /* struct lone */
    uint64_t lone_bytes;    /* of memory that shadow_pin has pinned */
    uint64_t pinning_bytes; /* of the arena that is being pinned; 0: none */
    uint64_t arena_bytes;   /* of `arenas`, and pinning_bytes */
    /* of the shadows that are out and within the limit, pinned or plain */
    uint64_t out_bytes;
    struct demand demand;
    uint64_t retry_ns; /* no attempt to pin before this time */
    bool has_warned;   /* the copier's thread's: a failure to pin was logged */
};

/* ---- arenas ------------------------------------------------------------------------ */

static struct arena *arena_of(const struct shadows *shadows, const void *data)
{
    list_for_each_safe (&shadows->arenas, node, after) {
        struct arena *arena = container_of(node, struct arena, node);
        if ((uintptr_t)data - (uintptr_t)arena->mem->data < arena->mem->bytes)
            return arena;
    }
    return NULL;
}

/* Take back a region of bfc.c: the arena is freed when the lock is released. */
static void region_free(void *arg, void *data, size_t bytes)
{
    struct shadows *shadows = arg;
    struct arena *arena = arena_of(shadows, data);
    (void)list_remove(&arena->node);
    list_push_back(&shadows->dropped, &arena->node);
    shadows->arena_bytes -= bytes;
}

static const struct bfc_backend backend = {.region_free = region_free};

/* Allocate, register and pin an arena. `*text_p` gets the reason of a failure. */
static tryst_status arena_open(const struct shadows *shadows, const struct demand *demand,
                               uint64_t bytes, struct arena **arena_p,
                               const char **text_p)
{
    struct arena *arena = mem_zalloc(sizeof *arena);
    *text_p = "out of memory";
    if (!arena)
        return TRYST_E_NOMEM;
    tryst_status status =
        memory_alloc(shadows->cache, bytes, TRYST_MEMORY_HOST, 0, &arena->mem);
    if (status != TRYST_OK)
        goto free_arena;
    status = demand->ops->pin(demand->device, arena->mem->data, bytes);
    if (status != TRYST_OK) {
        *text_p = demand->ops->error_text();
        goto release;
    }
    arena->ops = demand->ops;
    arena->device = demand->device;
    *arena_p = arena;
    return TRYST_OK;
release:
    memory_release(arena->mem);
free_arena:
    mem_free(arena);
    return status;
}

static void arena_close(struct arena *arena)
{
    arena->ops->unpin(arena->device, arena->mem->data, arena->mem->bytes);
    memory_release(arena->mem);
    mem_free(arena);
}

/* ---- the pool ---------------------------------------------------------------------- */

tryst_status shadows_open(struct memory_cache *cache, const struct log *log,
                          uint64_t limit_bytes, struct shadows **shadows_p)
{
    struct shadows *shadows = mem_zalloc(sizeof *shadows);
    if (!shadows)
        return TRYST_E_NOMEM;
    struct bfc_params params = {.backend = &backend, .arg = shadows, .frees_later = true};
    tryst_status status = bfc_open(&params, &shadows->bfc);
    if (status != TRYST_OK) {
        mem_free(shadows);
        return status;
    }
    (void)pthread_mutex_init(&shadows->lock, NULL);
    shadows->cache = cache;
    shadows->log = log;
    shadows->limit_bytes = limit_bytes / ARENA_GRAIN_BYTES * ARENA_GRAIN_BYTES;
    list_init(&shadows->arenas);
    list_init(&shadows->dropped);
    list_init(&shadows->lone);
    *shadows_p = shadows;
    return TRYST_OK;
}

void shadows_close(struct shadows *shadows)
{
    if (!shadows)
        return;
    assert(shadows->out_bytes == 0 && list_empty(&shadows->arenas));
    assert(list_empty(&shadows->lone));
    (void)bfc_close(shadows->bfc);
    pthread_mutex_destroy(&shadows->lock);
    mem_free(shadows);
}

/* Note a shadow that no free piece could serve. The caller holds the lock, and has
 * counted the shadow in out_bytes. */
static void miss_note(struct shadows *shadows, const struct memory_ops *ops,
                      int32_t device, uint64_t bytes)
{
    struct demand *demand = &shadows->demand;
    if (bytes <= shadows->pinning_bytes && shadows->out_bytes <= shadows->arena_bytes)
        return; /* the next shadow like this one finds room */
    uint64_t lacking = shadows->out_bytes > shadows->arena_bytes
                           ? shadows->out_bytes - shadows->arena_bytes
                           : 0;
    lacking = lacking > bytes ? lacking : bytes;
    demand->bytes = demand->bytes > lacking ? demand->bytes : lacking;
    demand->largest = demand->largest > bytes ? demand->largest : bytes;
    demand->ops = ops;
    demand->device = device;
}

static uint64_t page_round(uint64_t bytes)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

/* Allocate whole pages, since they may be pinned. */
static void *plain_alloc(uint64_t bytes)
{
    return mem_alloc_aligned((size_t)page_round(1), page_round(bytes));
}

/* True if a shadow of this size can be pinned at all. */
static bool is_pinnable(const struct shadows *shadows, uint64_t bytes)
{
    return bytes > 0 && bytes <= shadows->limit_bytes;
}

tryst_status shadow_get(struct shadows *shadows, const struct memory_ops *ops,
                        int32_t device, uint64_t bytes, struct shadow *shadow_p)
{
    struct shadow shadow = {.bytes = bytes};
    if (bytes > INT64_MAX)
        return TRYST_E_NOMEM;
    if (is_pinnable(shadows, bytes)) {
        pthread_mutex_lock(&shadows->lock);
        shadows->out_bytes += bytes;
        if (bfc_get(shadows->bfc, false, NULL, bytes, &shadow.data) == TRYST_OK)
            shadow.mem = arena_of(shadows, shadow.data)->mem;
        else if (ops)
            miss_note(shadows, ops, device, bytes);
        pthread_mutex_unlock(&shadows->lock);
    }
    if (bytes && !shadow.data) {
        shadow.data = plain_alloc(bytes);
        if (!shadow.data) {
            shadow_put(shadows, &shadow);
            return TRYST_E_NOMEM;
        }
    }
    *shadow_p = shadow;
    return TRYST_OK;
}

/* Return how many bytes may still be pinned. */
static uint64_t pin_room(const struct shadows *shadows)
{
    uint64_t pinned = shadows->arena_bytes + shadows->lone_bytes;
    return pinned < shadows->limit_bytes ? shadows->limit_bytes - pinned : 0;
}

tryst_status shadow_pin(struct shadows *shadows, const struct memory_ops *ops,
                        int32_t device, struct shadow *shadow)
{
    uint64_t bytes = page_round(shadow->bytes);
    pthread_mutex_lock(&shadows->lock);
    bool has_room = bytes <= pin_room(shadows);
    shadows->lone_bytes += has_room ? bytes : 0;
    pthread_mutex_unlock(&shadows->lock);
    if (!has_room)
        return TRYST_E_NOMEM;
    tryst_status status = ops->pin(device, shadow->data, bytes);
    if (status == TRYST_OK) {
        shadow->pinned_by = ops;
        shadow->pinned_device = device;
        return status;
    }
    pthread_mutex_lock(&shadows->lock);
    shadows->lone_bytes -= bytes;
    pthread_mutex_unlock(&shadows->lock);
    return status;
}

/* Hand memory that shadow_pin has pinned to the copier's thread. The caller holds the
 * lock. */
static void lone_put(struct shadows *shadows, const struct shadow *shadow)
{
    struct lone *lone = shadow->data;
    assert(lone); /* it was pinned */
    *lone = (struct lone){.ops = shadow->pinned_by,
                          .device = shadow->pinned_device,
                          .bytes = page_round(shadow->bytes)};
    list_push_back(&shadows->lone, &lone->node);
}

void shadow_put(struct shadows *shadows, struct shadow *shadow)
{
    if (is_pinnable(shadows, shadow->bytes)) {
        pthread_mutex_lock(&shadows->lock);
        shadows->out_bytes -= shadow->bytes;
        if (shadow->mem)
            (void)bfc_put(shadows->bfc, false, NULL, shadow->data);
        else if (shadow->pinned_by)
            lone_put(shadows, shadow);
        pthread_mutex_unlock(&shadows->lock);
    }
    if (!shadow_is_pinned(shadow))
        mem_free(shadow->data);
    *shadow = (struct shadow){.bytes = 0};
}

/* ---- the copier's thread ----------------------------------------------------------- */

/* Unpin and free what shadow_pin has pinned, of shadows that have come back. The lock is
 * released meanwhile. */
static void lone_free(struct shadows *shadows)
{
    struct list_node *node;
    while ((node = list_pop_front(&shadows->lone)) != NULL) {
        struct lone *lone = container_of(node, struct lone, node);
        shadows->lone_bytes -= lone->bytes;
        pthread_mutex_unlock(&shadows->lock);
        lone->ops->unpin(lone->device, lone, lone->bytes);
        mem_free(lone);
        pthread_mutex_lock(&shadows->lock);
    }
}

/* Free the arenas that were dropped under the lock, which is released meanwhile. */
static void dropped_free(struct shadows *shadows)
{
    struct list_node *node;
    while ((node = list_pop_front(&shadows->dropped)) != NULL) {
        pthread_mutex_unlock(&shadows->lock);
        arena_close(container_of(node, struct arena, node));
        pthread_mutex_lock(&shadows->lock);
    }
}

static uint64_t largest_arena(const struct shadows *shadows)
{
    uint64_t largest = 0;
    list_for_each_safe (&shadows->arenas, node, after) {
        const struct arena *arena = container_of(node, struct arena, node);
        largest = arena->mem->bytes > largest ? arena->mem->bytes : largest;
    }
    return largest;
}

static uint64_t arena_round(uint64_t bytes)
{
    return (bytes + ARENA_GRAIN_BYTES - 1) / ARENA_GRAIN_BYTES * ARENA_GRAIN_BYTES;
}

/* Return the size of an arena for a demand; 0: the limit forbids one. May drop arenas.
 * The caller holds the lock. */
static uint64_t arena_size(struct shadows *shadows, const struct demand *demand)
{
    uint64_t bytes = ARENA_MIN_BYTES, least = arena_round(demand->largest);
    uint64_t room = pin_room(shadows);
    if (room < least && least > largest_arena(shadows)) {
        (void)bfc_trim(shadows->bfc);
        room = pin_room(shadows);
    }
    while (bytes < demand->bytes)
        bytes *= 2;
    bytes = bytes < room ? bytes : room;
    return bytes < least ? 0 : bytes;
}

/* True if the noted demand should be met now. The caller holds the lock. */
static bool demand_is_due(struct shadows *shadows, bool idle, uint64_t now_ns)
{
    struct demand *demand = &shadows->demand;
    if (demand->bytes == 0 || now_ns < shadows->retry_ns)
        return false;
    if (demand->since_ns == 0)
        demand->since_ns = now_ns;
    return idle || now_ns - demand->since_ns >= PIN_DELAY_NS;
}

/* Pin an arena of `bytes`, which arena_bytes counts already, and add it to the pool. */
static void arena_add(struct shadows *shadows, const struct demand *demand,
                      uint64_t bytes, uint64_t now_ns)
{
    struct arena *arena = NULL;
    const char *text;
    tryst_status status = arena_open(shadows, demand, bytes, &arena, &text);
    pthread_mutex_lock(&shadows->lock);
    shadows->pinning_bytes = 0;
    if (status == TRYST_OK)
        status = bfc_region_add(shadows->bfc, arena->mem->data, bytes);
    if (status == TRYST_OK) {
        list_push_back(&shadows->arenas, &arena->node);
    } else {
        shadows->arena_bytes -= bytes;
        shadows->retry_ns = now_ns + PIN_RETRY_NS;
    }
    pthread_mutex_unlock(&shadows->lock);
    if (status == TRYST_OK)
        return;
    if (arena)
        arena_close(arena);
    if (!shadows->has_warned)
        LOG_WARN(shadows->log,
                 "cannot pin %" PRIu64 " bytes of host memory: %s: collectives move "
                 "device tensors through memory that is not pinned, more slowly",
                 bytes, text);
    shadows->has_warned = true;
}

void shadows_pin(struct shadows *shadows, bool idle, uint64_t now_ns)
{
    struct demand demand = {0};
    uint64_t bytes = 0;
    if (!shadows)
        return;
    pthread_mutex_lock(&shadows->lock);
    if (demand_is_due(shadows, idle, now_ns)) {
        demand = shadows->demand;
        shadows->demand = (struct demand){0};
        bytes = arena_size(shadows, &demand);
        shadows->pinning_bytes = bytes;
        shadows->arena_bytes += bytes;
        dropped_free(shadows);
    }
    pthread_mutex_unlock(&shadows->lock);
    if (bytes)
        arena_add(shadows, &demand, bytes, now_ns);
}

void shadows_reserve(struct shadows *shadows, const struct memory_ops *ops,
                     int32_t device)
{
    pthread_mutex_lock(&shadows->lock);
    struct demand *demand = &shadows->demand;
    uint64_t wanted = 2 * shadows->out_bytes;
    if (shadows->arena_bytes < wanted || !shadows->arena_bytes) {
        uint64_t lacking =
            wanted > shadows->arena_bytes ? wanted - shadows->arena_bytes : 1;
        demand->bytes = demand->bytes > lacking ? demand->bytes : lacking;
        demand->ops = ops;
        demand->device = device;
    }
    pthread_mutex_unlock(&shadows->lock);
}

void shadows_unpin(struct shadows *shadows)
{
    if (!shadows)
        return;
    pthread_mutex_lock(&shadows->lock);
    lone_free(shadows);
    (void)bfc_trim(shadows->bfc);
    dropped_free(shadows);
    pthread_mutex_unlock(&shadows->lock);
}
