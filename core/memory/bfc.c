/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Best fit with coalescing; see bfc.h.
 *
 * Two rules set the sizes. *Splitting*: the rest of a chunk is split off if it is at
 * least an eighth of the request. At most that share is thus lost inside a chunk, and
 * large chunks leave no crumbs. *Growing*: the size of the next region doubles with each
 * region that exists, within the limit. Where the backend has no region of that size,
 * nine tenths of it are tried, and so on down to the request.
 */
#include "core/memory/bfc.h"

#include <assert.h>

#include "bfc_chunk.h"
#include "core/memory/alloc.h"
#include "core/memory/list.h"

#define REGION_BYTES (UINT64_C(2) << 20) /* drivers do not allocate less */
enum { LOSS_SHARE = 8 };

struct region {
    struct list_node node;
    struct bfc_chunk *first;
    uintptr_t data;
    uint64_t bytes;
};

struct bfc {
    struct bfc_params params;
    struct bfc_index index;
    struct list regions;
    struct list waiting;   /* free chunks that wait for a stream, oldest first */
    struct bfc_wait never; /* a wait that does not end (wait_make) */
    uint64_t first_region_bytes;
    uint64_t next_wait;
    struct bfc_counts counts;
};

static uint64_t grains(uint64_t bytes)
{
    return (bytes + BFC_GRAIN - 1) / BFC_GRAIN * BFC_GRAIN;
}

tryst_status bfc_open(const struct bfc_params *params, struct bfc **bfc_p)
{
    struct bfc *bfc = mem_zalloc(sizeof *bfc);
    if (!bfc)
        return TRYST_E_NOMEM;
    bfc_index_init(&bfc->index);
    bfc->params = *params;
    bfc->first_region_bytes =
        grains(params->region_bytes ? params->region_bytes : REGION_BYTES);
    list_init(&bfc->regions);
    list_init(&bfc->waiting);
    bfc->never.references = 1;
    *bfc_p = bfc;
    return TRYST_OK;
}

/* --- waits --- */

static void wait_drop(struct bfc *bfc, struct bfc_wait *wait)
{
    while (wait && --wait->references == 0) {
        struct bfc_wait *also = wait->also;
        if (wait->event)
            bfc->params.backend->event_drop(bfc->params.arg, wait->event);
        mem_free(wait);
        wait = also;
    }
}

static struct bfc_wait *wait_share(struct bfc_wait *wait)
{
    if (wait)
        wait->references++;
    return wait;
}

/* Poll the events of a wait. True if all have passed. */
static bool wait_poll(struct bfc *bfc, struct bfc_wait *wait)
{
    for (; wait; wait = wait->also) {
        if (!wait->has_completed && wait->event)
            wait->has_completed =
                bfc->params.backend->event_passed(bfc->params.arg, wait->event);
        if (!wait->has_completed)
            return false;
        wait->event = NULL; /* event_passed has given the event back */
    }
    return true;
}

/* Drop from the list of waits those that are over: otherwise the list would grow without
 * end while two streams use one chunk in turn. Chunks that share a wait of the list do
 * not need them either. */
static void wait_shorten(struct bfc *bfc, struct bfc_wait *wait)
{
    for (; wait; wait = wait->also)
        if (wait->also && wait_poll(bfc, wait->also)) {
            wait_drop(bfc, wait->also);
            wait->also = NULL;
        }
}

/* Make a wait for all work of `stream` so far and for `old`; the new wait takes over the
 * reference to `old`. */
static struct bfc_wait *wait_make(struct bfc *bfc, void *stream, struct bfc_wait *old)
{
    struct bfc_wait *wait = mem_zalloc(sizeof *wait);
    if (!wait) { /* the work cannot be recorded, so the chunk waits until bfc_close */
        wait_drop(bfc, old);
        return wait_share(&bfc->never);
    }
    *wait = (struct bfc_wait){
        .references = 1, .is_named = true, .number = ++bfc->next_wait, .stream = stream};
    if (bfc->params.backend->event_record(bfc->params.arg, stream, &wait->event) !=
        TRYST_OK)
        wait->event = NULL;
    /* the later event covers the earlier one */
    if (old && old->is_named && old->stream == stream) {
        wait->also = wait_share(old->also);
        wait_drop(bfc, old);
    } else {
        wait->also = old;
    }
    return wait;
}

static void wait_end(struct bfc *bfc, struct bfc_chunk *chunk)
{
    wait_drop(bfc, chunk->wait);
    chunk->wait = NULL;
}

/* Add `chunk` to the list of waiting chunks if the chunk has a wait. */
static void waiting_add(struct bfc *bfc, struct bfc_chunk *chunk)
{
    if (!chunk->wait)
        return;
    list_push_back(&bfc->waiting, &chunk->by_wait);
    bfc->counts.waiting_chunks++;
}

static void waiting_remove(struct bfc *bfc, struct bfc_chunk *chunk)
{
    bfc->counts.waiting_chunks -= list_remove(&chunk->by_wait);
}

/* --- merging --- */

static bool is_mergeable(const struct bfc_chunk *a, const struct bfc_chunk *b)
{
    if (!a->is_free || !b->is_free)
        return false;
    if (!a->wait || !b->wait || a->wait == b->wait)
        return a->wait == b->wait;
    return a->wait->is_named && b->wait->is_named && a->wait->stream == b->wait->stream &&
           !a->wait->also && !b->wait->also;
}

/* Merge `behind` into `chunk`; neither is in a list of sizes. Of two waits for one stream
 * the later is kept, because its event covers the earlier one. */
static void swallow(struct bfc *bfc, struct bfc_chunk *chunk, struct bfc_chunk *behind)
{
    if (chunk->wait && behind->wait && chunk->wait->number < behind->wait->number) {
        struct bfc_wait *earlier = chunk->wait;
        chunk->wait = behind->wait;
        behind->wait = earlier;
    }
    wait_end(bfc, behind);
    hash_table_remove(&bfc->index.by_address, &behind->by_address);
    chunk->bytes += behind->bytes;
    chunk->behind = behind->behind;
    if (chunk->behind)
        chunk->behind->before = chunk;
    mem_free(behind);
}

static void free_remove(struct bfc *bfc, struct bfc_chunk *chunk)
{
    bfc_index_remove(&bfc->index, chunk);
    waiting_remove(bfc, chunk);
    bfc->counts.free_chunks--;
}

/* Merge a free chunk with its neighbours and add the result to the index by size. */
static void free_add(struct bfc *bfc, struct bfc_chunk *chunk)
{
    struct bfc_chunk *before = chunk->before, *behind = chunk->behind;
    if (behind && is_mergeable(chunk, behind)) {
        free_remove(bfc, behind);
        swallow(bfc, chunk, behind);
    }
    if (before && is_mergeable(before, chunk)) {
        free_remove(bfc, before);
        swallow(bfc, before, chunk);
        chunk = before;
    }
    bfc_index_add(&bfc->index, chunk);
    waiting_add(bfc, chunk);
    bfc->counts.free_chunks++;
}

/* Poll up to `count` of the chunks that have waited longest. */
static void waiting_settle(struct bfc *bfc, uint64_t count)
{
    struct list_node *node = bfc->waiting.head.next, *next;
    for (; count > 0 && node != &bfc->waiting.head; node = next, count--) {
        struct bfc_chunk *chunk = container_of(node, struct bfc_chunk, by_wait);
        next = node->next;
        if (!wait_poll(bfc, chunk->wait))
            continue;
        free_remove(bfc, chunk);
        wait_end(bfc, chunk);
        /* merges only with chunks that wait for nothing, so never with `next` */
        free_add(bfc, chunk);
    }
}

/* --- regions --- */

static struct bfc_chunk *chunk_make(struct bfc *bfc, uintptr_t data, uint64_t bytes)
{
    struct bfc_chunk *chunk = mem_zalloc(sizeof *chunk);
    if (!chunk)
        return NULL;
    chunk->data = data;
    chunk->bytes = bytes;
    hash_table_add(&bfc->index.by_address, &chunk->by_address, hash_of_id(data));
    return chunk;
}

tryst_status bfc_region_add(struct bfc *bfc, void *data, uint64_t bytes)
{
    struct region *region = mem_zalloc(sizeof *region);
    if (!region)
        return TRYST_E_NOMEM;
    region->data = (uintptr_t)data;
    region->bytes = bytes;
    region->first = chunk_make(bfc, region->data, bytes);
    if (!region->first) {
        mem_free(region);
        return TRYST_E_NOMEM;
    }
    list_push_back(&bfc->regions, &region->node);
    bfc->counts.regions++;
    bfc->counts.reserved_bytes += bytes;
    region->first->is_free = true;
    free_add(bfc, region->first);
    return TRYST_OK;
}

static tryst_status region_make(struct bfc *bfc, uint64_t bytes)
{
    void *data;
    tryst_status status =
        bfc->params.backend->region_alloc(bfc->params.arg, bytes, &data);
    if (status != TRYST_OK)
        return status;
    status = bfc_region_add(bfc, data, bytes);
    if (status != TRYST_OK)
        bfc->params.backend->region_free(bfc->params.arg, data, bytes);
    return status;
}

static void region_drop(struct bfc *bfc, struct region *region)
{
    struct bfc_chunk *chunk = region->first;
    free_remove(bfc, chunk);
    hash_table_remove(&bfc->index.by_address, &chunk->by_address);
    mem_free(chunk);
    (void)list_remove(&region->node);
    bfc->counts.regions--;
    bfc->counts.reserved_bytes -= region->bytes;
    bfc->params.backend->region_free(bfc->params.arg, (void *)region->data,
                                     region->bytes);
    mem_free(region);
}

static bool is_wholly_free(const struct region *region)
{
    const struct bfc_chunk *chunk = region->first;
    return chunk->is_free && !chunk->wait && chunk->bytes == region->bytes;
}

uint64_t bfc_trim(struct bfc *bfc)
{
    uint64_t before = bfc->counts.reserved_bytes;
    waiting_settle(bfc, bfc->counts.waiting_chunks);
    list_for_each_safe (&bfc->regions, node, after) {
        struct region *region = container_of(node, struct region, node);
        if (is_wholly_free(region))
            region_drop(bfc, region);
    }
    return before - bfc->counts.reserved_bytes;
}

static uint64_t room_left(const struct bfc *bfc)
{
    uint64_t limit = bfc->params.limit_bytes ? bfc->params.limit_bytes : UINT64_MAX;
    uint64_t left =
        limit > bfc->counts.reserved_bytes ? limit - bfc->counts.reserved_bytes : 0;
    return left / BFC_GRAIN * BFC_GRAIN;
}

/* Return the size of the next region: twice as large for each region that exists. A pool
 * that grows has few regions, and a pool that is trimmed again and again starts small
 * again. */
static uint64_t region_wanted(const struct bfc *bfc)
{
    uint64_t bytes = bfc->first_region_bytes;
    for (uint64_t i = 0; i < bfc->counts.regions && bytes <= UINT64_MAX / 4; i++)
        bytes *= 2;
    return bytes;
}

/* Add a region of at least `bytes`. */
static tryst_status grow(struct bfc *bfc, uint64_t bytes)
{
    uint64_t wanted = region_wanted(bfc);
    uint64_t left = room_left(bfc);
    tryst_status status = TRYST_E_NOMEM;
    if (bytes > left || !bfc->params.backend->region_alloc)
        return status;
    wanted = wanted > bytes ? wanted : bytes;
    wanted = wanted < left ? wanted : left;
    for (;;) {
        status = region_make(bfc, wanted);
        if (status != TRYST_E_NOMEM || wanted == bytes)
            break;
        wanted = wanted / 10 * 9 / BFC_GRAIN * BFC_GRAIN;
        wanted = wanted > bytes ? wanted : bytes;
    }
    return status;
}

/* --- get --- */

struct wanted {
    struct bfc *bfc;
    bool on_stream;
    void *stream;
};

static bool is_usable(struct bfc_chunk *chunk, void *arg)
{
    const struct wanted *wanted = arg;
    const struct bfc_wait *wait = chunk->wait;
    if (!wait)
        return true;
    return wanted->on_stream && wait->is_named && wait->stream == wanted->stream &&
           wait_poll(wanted->bfc, wait->also);
}

/* Split off the part of `chunk` beyond `bytes`; without memory for the new record the
 * chunk stays whole. Both parts keep the wait of the whole. */
static void split(struct bfc *bfc, struct bfc_chunk *chunk, uint64_t bytes)
{
    uint64_t left = chunk->bytes - bytes;
    if (left < BFC_GRAIN || left < bytes / LOSS_SHARE)
        return;
    struct bfc_chunk *rest = chunk_make(bfc, chunk->data + bytes, left);
    if (!rest)
        return;
    rest->is_free = true;
    rest->before = chunk;
    rest->behind = chunk->behind;
    if (rest->behind)
        rest->behind->before = rest;
    chunk->behind = rest;
    chunk->bytes = bytes;
    rest->wait = wait_share(chunk->wait);
    free_add(bfc, rest);
}

static void *take(struct bfc *bfc, struct bfc_chunk *chunk, uint64_t bytes)
{
    free_remove(bfc, chunk);
    chunk->is_free = false; /* first, so that split does not merge the rest with it */
    split(bfc, chunk, bytes);
    bfc->counts.in_use++;
    bfc->counts.gets++;
    bfc->counts.in_use_bytes += chunk->bytes;
    if (bfc->counts.high_water_bytes < bfc->counts.in_use_bytes)
        bfc->counts.high_water_bytes = bfc->counts.in_use_bytes;
    return (void *)chunk->data;
}

/* Find a chunk, in this order: a free one; one that streams have finished with meanwhile;
 * one in a new region; one in a region that replaces free regions too small for the
 * request. */
static tryst_status find(struct bfc *bfc, struct wanted *wanted, uint64_t bytes,
                         struct bfc_chunk **chunk_p)
{
    tryst_status status = TRYST_OK;
    /* bfc_put adds one waiting chunk at most, and two are polled here, so they stay
     * few */
    waiting_settle(bfc, 2);
    *chunk_p = bfc_index_find(&bfc->index, bytes, is_usable, wanted);
    if (*chunk_p)
        return TRYST_OK;
    waiting_settle(bfc, bfc->counts.waiting_chunks);
    *chunk_p = bfc_index_find(&bfc->index, bytes, is_usable, wanted);
    if (*chunk_p)
        return TRYST_OK;
    status = grow(bfc, bytes);
    if (status == TRYST_E_NOMEM && !bfc->params.frees_later && bfc_trim(bfc) > 0)
        status = grow(bfc, bytes);
    if (status == TRYST_OK)
        *chunk_p = bfc_index_find(&bfc->index, bytes, is_usable, wanted);
    return status;
}

tryst_status bfc_get(struct bfc *bfc, bool on_stream, void *stream, size_t bytes,
                     void **data_p)
{
    struct wanted wanted = {bfc, on_stream, stream};
    struct bfc_chunk *chunk;
    if (bytes == 0 || bytes > INT64_MAX)
        return bytes ? TRYST_E_NOMEM : TRYST_E_INVALID;
    tryst_status status = find(bfc, &wanted, grains(bytes), &chunk);
    if (status == TRYST_OK)
        *data_p = take(bfc, chunk, grains(bytes));
    return status;
}

/* --- put --- */

/* Return the chunk at `data` if it is out, else NULL. */
static struct bfc_chunk *chunk_out(const struct bfc *bfc, const void *data)
{
    struct bfc_chunk *chunk = bfc_index_at(&bfc->index, (uintptr_t)data);
    return chunk && !chunk->is_free ? chunk : NULL;
}

bool bfc_put(struct bfc *bfc, bool on_stream, void *stream, void *data)
{
    struct bfc_chunk *chunk = chunk_out(bfc, data);
    if (!chunk)
        return false;
    bfc->counts.in_use--;
    bfc->counts.in_use_bytes -= chunk->bytes;
    chunk->is_free = true;
    if (wait_poll(bfc, chunk->wait))
        wait_end(bfc, chunk);
    if (on_stream && bfc->params.backend->event_record)
        chunk->wait = wait_make(bfc, stream, chunk->wait);
    free_add(bfc, chunk);
    return true;
}

bool bfc_use(struct bfc *bfc, void *stream, void *data)
{
    struct bfc_chunk *chunk = chunk_out(bfc, data);
    if (!chunk || !bfc->params.backend->event_record)
        return false;
    if (wait_poll(bfc, chunk->wait))
        wait_end(bfc, chunk);
    wait_shorten(bfc, chunk->wait);
    chunk->wait = wait_make(bfc, stream, chunk->wait);
    return true;
}

bool bfc_is_settled(struct bfc *bfc, const void *data, bool *settled_p)
{
    struct bfc_chunk *chunk = chunk_out(bfc, data);
    if (!chunk)
        return false;
    *settled_p = wait_poll(bfc, chunk->wait);
    if (*settled_p)
        wait_end(bfc, chunk);
    return true;
}

/* Chunks that are out are walked too, because they may have a wait for the stream. */
void bfc_stream_forget(struct bfc *bfc, void *stream)
{
    list_for_each_safe (&bfc->regions, node, after) {
        struct region *region = container_of(node, struct region, node);
        for (struct bfc_chunk *chunk = region->first; chunk; chunk = chunk->behind)
            if (chunk->wait && chunk->wait->stream == stream)
                chunk->wait->is_named = false;
    }
}

/* --- close, counts, check --- */

static void region_close(struct bfc *bfc, struct region *region)
{
    for (struct bfc_chunk *chunk = region->first, *behind; chunk; chunk = behind) {
        behind = chunk->behind;
        wait_end(bfc, chunk);
        mem_free(chunk);
    }
    bfc->params.backend->region_free(bfc->params.arg, (void *)region->data,
                                     region->bytes);
    (void)list_remove(&region->node);
    mem_free(region);
}

uint64_t bfc_close(struct bfc *bfc)
{
    uint64_t left = bfc ? bfc->counts.in_use : 0;
    if (!bfc)
        return 0;
    while (!list_empty(&bfc->regions))
        region_close(bfc, container_of(list_first(&bfc->regions), struct region, node));
    hash_table_close(&bfc->index.by_address);
    mem_free(bfc);
    return left;
}

static uint64_t largest_free(const struct bfc *bfc, bool waiting_too)
{
    uint64_t largest = 0;
    for (unsigned i = 0; i < BFC_SIZES; i++) {
        list_for_each_safe (&bfc->index.sizes[i], node, after) {
            const struct bfc_chunk *chunk = container_of(node, struct bfc_chunk, by_size);
            if ((waiting_too || !chunk->wait) && chunk->bytes > largest)
                largest = chunk->bytes;
        }
    }
    return largest;
}

/* Wholly free regions count as room, since bfc_get may replace them by one region. */
uint64_t bfc_would_fit(struct bfc *bfc)
{
    waiting_settle(bfc, bfc->counts.waiting_chunks);
    uint64_t room = room_left(bfc), fits = largest_free(bfc, false);
    list_for_each_safe (&bfc->regions, node, after) {
        const struct region *region = container_of(node, struct region, node);
        room += room <= INT64_MAX && is_wholly_free(region) ? region->bytes : 0;
    }
    return fits > room ? fits : room;
}

void bfc_counts(const struct bfc *bfc, struct bfc_counts *counts_p)
{
    *counts_p = bfc->counts;
    counts_p->largest_free_bytes = largest_free(bfc, true);
}

static bool chunk_is_valid(const struct bfc *bfc, const struct bfc_chunk *chunk)
{
    const struct bfc_chunk *behind = chunk->behind;
    return chunk->bytes >= BFC_GRAIN && chunk->bytes % BFC_GRAIN == 0 &&
           list_linked(&chunk->by_size) == chunk->is_free &&
           list_linked(&chunk->by_wait) == (chunk->is_free && chunk->wait) &&
           bfc_index_at(&bfc->index, chunk->data) == chunk &&
           (!behind ||
            (behind->before == chunk && behind->data == chunk->data + chunk->bytes &&
             !is_mergeable(chunk, behind)));
}

bool bfc_is_valid(const struct bfc *bfc)
{
    struct bfc_counts sums = {0};
    uint64_t chunks = 0;
    list_for_each_safe (&bfc->regions, node, after) {
        const struct region *region = container_of(node, struct region, node);
        uint64_t bytes = 0;
        if (!region->first || region->first->data != region->data)
            return false;
        for (const struct bfc_chunk *chunk = region->first; chunk;
             chunk = chunk->behind, chunks++) {
            if (!chunk_is_valid(bfc, chunk))
                return false;
            bytes += chunk->bytes;
            sums.free_chunks += chunk->is_free;
            sums.waiting_chunks += chunk->is_free && chunk->wait;
            sums.in_use += !chunk->is_free;
            sums.in_use_bytes += chunk->is_free ? 0 : chunk->bytes;
        }
        if (bytes != region->bytes)
            return false;
        sums.reserved_bytes += bytes;
        sums.regions++;
    }
    return chunks == bfc->index.by_address.count && sums.regions == bfc->counts.regions &&
           sums.free_chunks == bfc->counts.free_chunks &&
           sums.waiting_chunks == bfc->counts.waiting_chunks &&
           sums.in_use == bfc->counts.in_use &&
           sums.in_use_bytes == bfc->counts.in_use_bytes &&
           sums.reserved_bytes == bfc->counts.reserved_bytes;
}
