/* SPDX-License-Identifier: Apache-2.0 */
/* Best fit with coalescing: its decisions one by one, and a long random run against a
 * model that records, for every grain, the owner and the streams that may still use it.
 * The memory itself does not exist; addresses suffice. */
#include "support/unit.h"

#include <string.h>

#include "core/memory/alloc.h"
#include "core/memory/bfc.h"
#include "core/os/random.h"

enum {
    STREAMS = 4,
    K = 1024,
    BLOCK = 64 * K,
    BLOCKS = 1024,
    GRAINS = BLOCKS * (BLOCK / 256)
};
#define BASE ((uintptr_t)1 << 40)

/* ---- a device: addresses, and streams that advance only on command ----------------- */

struct event {
    int stream;
    uint64_t at;
};

static struct device {
    uint64_t room_bytes; /* what the device can still give */
    bool used[BLOCKS];   /* addresses in use, in blocks of BLOCK */
    unsigned regions, events, asked;
    uint64_t largest_region;
    uint64_t queued[STREAMS], done[STREAMS];
    bool no_events;
} device;

/* Find the first of `count` blocks with free addresses. */
static uint64_t blocks_find(uint64_t count)
{
    uint64_t first = 0;
    for (uint64_t i = 0; i < BLOCKS && i < first + count; i++)
        if (device.used[i])
            first = i + 1;
    assert_true(first + count <= BLOCKS);
    return first;
}

static void blocks_set(uint64_t first, size_t bytes, bool used)
{
    for (uint64_t i = 0; i < (bytes + BLOCK - 1) / BLOCK; i++)
        device.used[first + i] = used;
}

static tryst_status region_alloc(void *arg, size_t bytes, void **data_p)
{
    (void)arg;
    device.asked++;
    if (bytes > device.room_bytes)
        return TRYST_E_NOMEM;
    device.room_bytes -= bytes;
    device.regions++;
    if (device.largest_region < bytes)
        device.largest_region = bytes;
    uint64_t first = blocks_find((bytes + BLOCK - 1) / BLOCK);
    blocks_set(first, bytes, true);
    *data_p = (void *)(BASE + first * BLOCK);
    return TRYST_OK;
}

static void region_free(void *arg, void *data, size_t bytes)
{
    (void)arg;
    blocks_set(((uintptr_t)data - BASE) / BLOCK, bytes, false);
    device.regions--;
    device.room_bytes += bytes;
}

static tryst_status event_record(void *arg, void *stream, void **event_p)
{
    (void)arg;
    if (device.no_events)
        return TRYST_E_SYSTEM;
    struct event *event = malloc(sizeof *event);
    int index = (int)(uintptr_t)stream;
    assert_non_null(event);
    *event = (struct event){index, ++device.queued[index]};
    device.events++;
    *event_p = event;
    return TRYST_OK;
}

static void event_drop(void *arg, void *event)
{
    (void)arg;
    device.events--;
    free(event);
}

static bool event_passed(void *arg, void *event)
{
    const struct event *at = event;
    bool passed = device.done[at->stream] >= at->at;
    if (passed)
        event_drop(arg, event);
    return passed;
}

static const struct bfc_backend backend = {region_alloc, region_free, event_record,
                                           event_passed, event_drop};

static struct bfc *open_with(uint64_t room, uint64_t limit, uint64_t region)
{
    struct bfc_params params = {
        .backend = &backend, .limit_bytes = limit, .region_bytes = region};
    struct bfc *bfc;
    device = (struct device){.room_bytes = room};
    assert_int_equal(bfc_open(&params, &bfc), TRYST_OK);
    return bfc;
}

static void close_empty(struct bfc *bfc)
{
    assert_true(bfc_is_valid(bfc));
    assert_int_equal(bfc_close(bfc), 0);
    assert_int_equal(device.regions, 0);
    assert_int_equal(device.events, 0);
}

static void *get(struct bfc *bfc, size_t bytes)
{
    void *data = NULL;
    assert_int_equal(bfc_get(bfc, false, NULL, bytes, &data), TRYST_OK);
    assert_true(bfc_is_valid(bfc));
    return data;
}

static void *get_on(struct bfc *bfc, int stream, size_t bytes)
{
    void *data = NULL;
    assert_int_equal(bfc_get(bfc, true, (void *)(intptr_t)stream, bytes, &data),
                     TRYST_OK);
    assert_true(bfc_is_valid(bfc));
    return data;
}

static void put(struct bfc *bfc, void *data)
{
    assert_true(bfc_put(bfc, false, NULL, data));
    assert_true(bfc_is_valid(bfc));
}

static void put_on(struct bfc *bfc, int stream, void *data)
{
    assert_true(bfc_put(bfc, true, (void *)(intptr_t)stream, data));
    assert_true(bfc_is_valid(bfc));
}

static struct bfc_counts counts_of(const struct bfc *bfc)
{
    struct bfc_counts counts;
    bfc_counts(bfc, &counts);
    return counts;
}

/* ---- decisions --------------------------------------------------------------------- */

static void smallest_that_fits(void **state)
{
    struct bfc *bfc = open_with(UINT64_MAX, 0, 1024 * K);
    void *holes[4];
    const size_t sizes[4] = {64 * K, 16 * K, 32 * K, 128 * K};
    for (int i = 0; i < 4; i++) {
        holes[i] = get(bfc, sizes[i]);
        (void)get(bfc, 256); /* separates this hole from the next */
    }
    for (int i = 0; i < 4; i++)
        put(bfc, holes[i]);
    assert_ptr_equal(get(bfc, 31 * K), holes[2]);
    assert_ptr_equal(get(bfc, 16 * K), holes[1]);
    assert_ptr_equal(get(bfc, 33 * K), holes[0]);
    /* the rest of holes[0] */
    assert_ptr_equal(get(bfc, 20 * K), (char *)holes[0] + 33 * K);
    assert_int_equal(device.regions, 1);
    assert_int_equal(bfc_close(bfc), 8);
}

static void splits_and_grows_together(void **state)
{
    struct bfc *bfc = open_with(UINT64_MAX, 0, 64 * K);
    char *a = get(bfc, 1), *b = get(bfc, 257), *c = get(bfc, 64 * K - 768);
    assert_ptr_equal(b, a + 256);
    assert_ptr_equal(c, b + 512);
    assert_int_equal(counts_of(bfc).in_use_bytes, 64 * K);
    assert_int_equal(counts_of(bfc).free_chunks, 0);
    put(bfc, a);
    put(bfc, c);
    assert_int_equal(counts_of(bfc).free_chunks, 2);
    put(bfc, b); /* merges with both neighbours */
    assert_int_equal(counts_of(bfc).free_chunks, 1);
    assert_int_equal(counts_of(bfc).largest_free_bytes, 64 * K);
    assert_int_equal(counts_of(bfc).high_water_bytes, 64 * K);
    /* A rest of less than an eighth stays with its chunk. */
    assert_ptr_equal(get(bfc, 60 * K), a);
    assert_int_equal(counts_of(bfc).in_use_bytes, 64 * K);
    put(bfc, a);
    assert_int_equal(bfc_trim(bfc), 64 * K);
    assert_int_equal(device.regions, 0);
    close_empty(bfc);
}

static void regions_double(void **state)
{
    struct bfc *bfc = open_with(UINT64_MAX, 0, 64 * K);
    const uint64_t reserved[] = {64, 64 + 128, 64 + 128 + 256, 64 + 128 + 256 + 1000};
    const size_t sizes[] = {64 * K, 128 * K, 10 * K, 1000 * K};
    for (int i = 0; i < 4; i++) {
        (void)get(bfc, sizes[i]);
        assert_int_equal(counts_of(bfc).reserved_bytes, reserved[i] * K);
    }
    assert_int_equal(bfc_close(bfc), 4);
    /* an allocator that is trimmed each time does not grow its regions */
    bfc = open_with(UINT64_MAX, 0, 64 * K);
    for (int i = 0; i < 100; i++) {
        put(bfc, get(bfc, 1));
        assert_int_equal(bfc_trim(bfc), 64 * K);
    }
    close_empty(bfc);
    /* The device has less than the next region's size: the allocator must request only
     * what the device has. */
    bfc = open_with(100 * K, 0, 1024 * K);
    (void)get(bfc, 90 * K);
    assert_true(device.largest_region >= 90 * K && device.largest_region <= 100 * K);
    void *data;
    assert_int_equal(bfc_get(bfc, false, NULL, 90 * K, &data), TRYST_E_NOMEM);
    assert_int_equal(bfc_close(bfc), 1);
}

static void limit_holds(void **state)
{
    struct bfc *bfc = open_with(UINT64_MAX, 1000 * K, 300 * K);
    void *data = NULL, *a = get(bfc, 300 * K), *b = get(bfc, 600 * K);
    assert_int_equal(counts_of(bfc).reserved_bytes, 900 * K);
    assert_int_equal(bfc_would_fit(bfc), 100 * K);
    assert_int_equal(bfc_get(bfc, false, NULL, 100 * K + 1, &data), TRYST_E_NOMEM);
    assert_null(data);
    put(bfc, a);
    /* one region is freed to make room for a larger one */
    assert_int_equal(bfc_would_fit(bfc), 400 * K);
    a = get(bfc, 400 * K);
    assert_int_equal(counts_of(bfc).reserved_bytes, 1000 * K);
    assert_int_equal(counts_of(bfc).regions, 2);
    put(bfc, a);
    put(bfc, b);
    assert_int_equal(bfc_get(bfc, false, NULL, SIZE_MAX, &data), TRYST_E_NOMEM);
    assert_int_equal(bfc_get(bfc, false, NULL, 0, &data), TRYST_E_INVALID);
    close_empty(bfc);
}

static void strangers_are_refused(void **state)
{
    struct bfc *bfc = open_with(UINT64_MAX, 0, 64 * K);
    char *data = get(bfc, 1000);
    assert_false(bfc_put(bfc, false, NULL, data + 256));
    assert_false(bfc_put(bfc, false, NULL, NULL));
    put(bfc, data);
    assert_false(bfc_put(bfc, false, NULL, data)); /* released twice */
    assert_int_equal(counts_of(bfc).in_use, 0);
    close_empty(bfc);
}

/* The same stream gets the piece back at once, other streams when the event has
 * passed. */
static void streams(void **state)
{
    struct bfc *bfc = open_with(UINT64_MAX, 0, 64 * K);
    void *whole = get_on(bfc, 1, 64 * K);
    put_on(bfc, 1, whole);
    assert_int_equal(counts_of(bfc).waiting_chunks, 1);
    assert_ptr_equal(get_on(bfc, 1, 64 * K), whole);
    put_on(bfc, 1, whole);
    void *other = get_on(bfc, 2, 64 * K);
    assert_ptr_not_equal(other, whole);
    void *third = get(bfc, 64 * K);
    assert_ptr_not_equal(third, whole);
    put(bfc, third);
    put(bfc, other);
    device.done[1] = device.queued[1];
    void *all[4];
    /* 64 + 128 KiB, all without growing; one of the pieces is `whole` */
    for (int i = 0; i < 4; i++)
        all[i] = i < 3 ? get(bfc, 64 * K) : whole;
    assert_true(all[0] == whole || all[1] == whole || all[2] == whole);
    assert_int_equal(device.regions, 2);
    for (int i = 0; i < 3; i++)
        put(bfc, all[i]);
    close_empty(bfc);
}

/* Adjacent pieces that wait for one stream merge, and wait for the latest of their
 * events. */
static void waits_merge(void **state)
{
    struct bfc *bfc = open_with(UINT64_MAX, 64 * K, 64 * K);
    char *a = get_on(bfc, 1, 32 * K), *b = get_on(bfc, 1, 32 * K);
    void *data;
    put_on(bfc, 1, b);
    device.done[1] = 1;
    put_on(bfc, 1, a);
    assert_int_equal(counts_of(bfc).free_chunks, 1);
    assert_int_equal(device.events, 1);
    assert_int_equal(bfc_get(bfc, true, (void *)2, 1, &data), TRYST_E_NOMEM);
    /* The front of the merged piece goes to its stream, the rest still waits. */
    assert_ptr_equal(get_on(bfc, 1, 16 * K), a);
    assert_int_equal(bfc_get(bfc, true, (void *)2, 1, &data), TRYST_E_NOMEM);
    device.done[1] = 2;
    assert_ptr_equal(get_on(bfc, 2, 16 * K), a + 16 * K);
    /* Pieces that wait for different streams do not merge. */
    put_on(bfc, 1, a);
    put_on(bfc, 2, a + 16 * K);
    assert_int_equal(counts_of(bfc).free_chunks, 3);
    device.done[1] = device.queued[1];
    device.done[2] = device.queued[2];
    assert_int_equal(bfc_would_fit(bfc), 64 * K);
    assert_int_equal(counts_of(bfc).free_chunks, 1);
    close_empty(bfc);
}

/* Neighbours that wait for one stream do not merge if one of them also waits for another:
 * the later of both waits would forget that stream, or both would wait for it. */
static void waits_of_several_do_not_merge(void **state)
{
    for (int row = 0; row < 4; row++) {
        struct bfc *bfc = open_with(UINT64_MAX, 64 * K, 64 * K);
        void *data[2] = {get(bfc, 32 * K), get(bfc, 32 * K)}, *none;
        int used = row / 2, first = row % 2;
        assert_true(bfc_use(bfc, (void *)2, data[used]));
        put_on(bfc, 1, data[first]);
        put_on(bfc, 1, data[!first]);
        assert_int_equal(counts_of(bfc).free_chunks, 2);
        device.done[1] = device.queued[1];
        assert_ptr_equal(get(bfc, 32 * K), data[!used]);
        assert_int_equal(bfc_get(bfc, false, NULL, 32 * K, &none), TRYST_E_NOMEM);
        device.done[2] = device.queued[2];
        assert_ptr_equal(get(bfc, 32 * K), data[used]);
        put(bfc, data[0]);
        put(bfc, data[1]);
        close_empty(bfc);
    }
}

/* Neighbours that wait for two streams of one handle, the first of which is closed, do
 * not merge, whichever was freed first. */
static void waits_of_one_handle_do_not_merge(void **state)
{
    for (int first = 0; first < 2; first++) {
        struct bfc *bfc = open_with(UINT64_MAX, 64 * K, 64 * K);
        void *data[2] = {get(bfc, 32 * K), get(bfc, 32 * K)}, *none;
        put_on(bfc, 1, data[first]);
        bfc_stream_forget(bfc, (void *)1);
        put_on(bfc, 1, data[!first]);
        assert_int_equal(counts_of(bfc).free_chunks, 2);
        assert_ptr_equal(get_on(bfc, 1, 32 * K), data[!first]);
        assert_int_equal(bfc_get(bfc, true, (void *)1, 32 * K, &none), TRYST_E_NOMEM);
        memcpy(device.done, device.queued, sizeof device.done);
        assert_ptr_equal(get(bfc, 32 * K), data[first]);
        put(bfc, data[0]);
        put(bfc, data[1]);
        close_empty(bfc);
    }
}

/* The handle of a closed stream may belong to another stream later. */
static void forgotten_streams(void **state)
{
    struct bfc *bfc = open_with(UINT64_MAX, 64 * K, 64 * K);
    void *data = get_on(bfc, 1, 64 * K), *none;
    put_on(bfc, 1, data);
    bfc_stream_forget(bfc, (void *)1);
    assert_int_equal(bfc_get(bfc, true, (void *)1, 1, &none), TRYST_E_NOMEM);
    device.done[1] = device.queued[1];
    assert_ptr_equal(get_on(bfc, 1, 64 * K), data);
    /* Without an event only the same stream may reuse the piece. */
    device.no_events = true;
    put_on(bfc, 1, data);
    assert_int_equal(bfc_get(bfc, false, NULL, 1, &none), TRYST_E_NOMEM);
    assert_int_equal(bfc_trim(bfc), 0);
    assert_ptr_equal(get_on(bfc, 1, 64 * K), data);
    put(bfc, data);
    close_empty(bfc);
}

/* A piece is given to its stream again, and released by others: the stream's earlier work
 * still counts. */
static void waits_are_inherited(void **state)
{
    struct bfc *bfc = open_with(UINT64_MAX, 64 * K, 64 * K);
    void *data = get_on(bfc, 1, 64 * K), *none;
    put_on(bfc, 1, data);
    assert_ptr_equal(get_on(bfc, 1, 64 * K), data);
    put(bfc, data);
    assert_int_equal(bfc_get(bfc, false, NULL, 1, &none), TRYST_E_NOMEM);
    assert_ptr_equal(get_on(bfc, 1, 64 * K), data);
    put_on(bfc, 2, data);
    assert_int_equal(bfc_get(bfc, true, (void *)1, 1, &none), TRYST_E_NOMEM);
    assert_int_equal(bfc_get(bfc, true, (void *)2, 1, &none), TRYST_E_NOMEM);
    device.done[1] = device.queued[1];
    assert_ptr_equal(get_on(bfc, 2, 64 * K), data);
    device.done[2] = device.queued[2];
    put(bfc, data);
    assert_ptr_equal(get(bfc, 64 * K), data);
    put(bfc, data);
    /* The front waits for the earlier event and its neighbour for the later one; once
     * merged, both wait for both. */
    data = get_on(bfc, 1, 64 * K);
    put_on(bfc, 1, data);
    data = get_on(bfc, 1, 32 * K);
    put_on(bfc, 1, get_on(bfc, 1, 32 * K));
    put(bfc, data);
    assert_int_equal(counts_of(bfc).free_chunks, 1);
    device.done[1] = device.queued[1] - 1;
    assert_int_equal(bfc_get(bfc, false, NULL, 1, &none), TRYST_E_NOMEM);
    device.done[1] = device.queued[1];
    assert_ptr_equal(get(bfc, 64 * K), data);
    put(bfc, data);
    close_empty(bfc);
}

/* A piece that streams were told to use must not be given to others or count as settled
 * until their work is done, whichever stream releases the piece. */
static void uses_are_kept(void **state)
{
    struct bfc *bfc = open_with(UINT64_MAX, 64 * K, 64 * K);
    void *data = get(bfc, 64 * K), *none;
    bool settled = false;
    assert_true(bfc_is_settled(bfc, data, &settled) && settled);
    assert_true(bfc_use(bfc, (void *)1, data));
    assert_true(bfc_use(bfc, (void *)2, data));
    assert_true(bfc_is_settled(bfc, data, &settled) && !settled);
    device.done[2] = device.queued[2];
    assert_true(bfc_is_settled(bfc, data, &settled) && !settled);
    put(bfc, data);
    assert_int_equal(bfc_get(bfc, false, NULL, 1, &none), TRYST_E_NOMEM);
    device.done[1] = device.queued[1];
    assert_ptr_equal(get(bfc, 64 * K), data);
    assert_true(bfc_is_settled(bfc, data, &settled) && settled);
    /* Two streams alternate, each some work behind: the uses that are over must not pile
     * up. */
    for (int i = 0; i < 100; i++) {
        int stream = 1 + i % 2;
        assert_true(bfc_use(bfc, (void *)(intptr_t)stream, data));
        device.done[stream] = device.queued[stream] - 1;
        assert_true(device.events <= 6);
    }
    assert_true(bfc_is_settled(bfc, data, &settled) && !settled);
    assert_false(bfc_use(bfc, (void *)1, (char *)data + 256));
    assert_false(bfc_is_settled(bfc, (char *)data + 256, &settled));
    put(bfc, data);
    assert_false(bfc_use(bfc, (void *)1, data)); /* not allocated */
    memcpy(device.done, device.queued, sizeof device.done);
    assert_int_equal(bfc_trim(bfc), 64 * K);
    close_empty(bfc);
}

static tryst_status some_calls(void)
{
    struct bfc_params params = {.backend = &backend, .region_bytes = 4 * K};
    struct bfc *bfc;
    void *data[200];
    int count = 0;
    device = (struct device){.room_bytes = UINT64_MAX};
    tryst_status status = bfc_open(&params, &bfc);
    if (status != TRYST_OK)
        return status;
    while (status == TRYST_OK && count < 200) {
        status = bfc_get(bfc, false, NULL, 300, &data[count]);
        count += status == TRYST_OK;
    }
    assert_true(bfc_is_valid(bfc));
    for (int i = 0; i < count; i++)
        put(bfc, data[i]);
    assert_int_equal(bfc_close(bfc), 0);
    assert_int_equal(device.regions, 0);
    return status;
}

/* Some failed allocations only prevent a split, without an error. None may leave the
 * allocator inconsistent. */
static void allocations_fail(void **state)
{
    uint64_t before = alloc_live_count();
    bool failed = true;
    for (uint64_t nth = 1; failed; nth++) {
        alloc_fail_at(nth);
        tryst_status status = some_calls();
        failed = alloc_fail_off();
        assert_true(status == TRYST_OK || (failed && status == TRYST_E_NOMEM));
        assert_int_equal(alloc_live_count(), before);
    }
}

/* ---- a long run against a model ---------------------------------------------------- */

struct grain {
    uint32_t owner;       /* 0: free */
    uint64_t at[STREAMS]; /* by stream: the last event after which the grain was freed */
};

struct piece {
    uintptr_t data;
    size_t bytes;
};

enum { PIECES = 400 };

struct model {
    struct bfc *bfc;
    struct random random;
    struct grain *grains;
    struct piece pieces[PIECES];
    uint64_t refused;
};

/* Check that every grain of the piece is free and that no other stream may still use it;
 * then take the grains. */
static void model_claim(struct model *self, unsigned i, int stream)
{
    struct piece *piece = &self->pieces[i];
    uint64_t first = (piece->data - BASE) / BFC_GRAIN;
    assert_int_equal((piece->data - BASE) % BFC_GRAIN, 0);
    for (uint64_t g = first; g < first + (piece->bytes + BFC_GRAIN - 1) / BFC_GRAIN;
         g++) {
        struct grain *grain = &self->grains[g];
        if (grain->owner)
            fail_msg("grain %llu has an owner", (unsigned long long)g);
        for (int other = 0; other < STREAMS; other++)
            if (other != stream && grain->at[other] > device.done[other])
                fail_msg("stream %d still uses grain %llu", other, (unsigned long long)g);
        grain->owner = i + 1;
    }
}

static void model_get(struct model *self, unsigned i)
{
    struct piece *piece = &self->pieces[i];
    int stream = (int)random_range(&self->random, STREAMS + 1) - 1;
    size_t most = random_range(&self->random, 10) ? 4 * K : 200 * K;
    piece->bytes = 1 + random_range(&self->random, most);
    void *data = NULL;
    uint64_t fits = bfc_would_fit(self->bfc);
    tryst_status status =
        bfc_get(self->bfc, stream >= 0, (void *)(intptr_t)stream, piece->bytes, &data);
    if (status == TRYST_OK) {
        piece->data = (uintptr_t)data;
        model_claim(self, i, stream);
        return;
    }
    assert_int_equal(status, TRYST_E_NOMEM);
    assert_true(fits < piece->bytes);
    piece->data = 0;
    self->refused++;
}

static void model_put(struct model *self, unsigned i)
{
    struct piece *piece = &self->pieces[i];
    int stream = (int)random_range(&self->random, STREAMS + 1) - 1;
    uint64_t first = (piece->data - BASE) / BFC_GRAIN;
    assert_true(
        bfc_put(self->bfc, stream >= 0, (void *)(intptr_t)stream, (void *)piece->data));
    for (uint64_t g = first; g < first + (piece->bytes + BFC_GRAIN - 1) / BFC_GRAIN;
         g++) {
        self->grains[g].owner = 0;
        if (stream >= 0)
            self->grains[g].at[stream] = device.queued[stream];
    }
    piece->data = 0;
}

/* Let a stream use the piece from here on. Check that no stream uses a piece that is
 * reported as settled. */
static void model_use(struct model *self, unsigned i)
{
    const struct piece *piece = &self->pieces[i];
    int stream = (int)random_range(&self->random, STREAMS);
    uint64_t first = (piece->data - BASE) / BFC_GRAIN;
    bool settled = false;
    assert_true(bfc_is_settled(self->bfc, (void *)piece->data, &settled));
    for (uint64_t g = first;
         settled && g < first + (piece->bytes + BFC_GRAIN - 1) / BFC_GRAIN; g++)
        for (int other = 0; other < STREAMS; other++)
            if (self->grains[g].at[other] > device.done[other])
                fail_msg("stream %d still uses grain %llu", other, (unsigned long long)g);
    assert_true(bfc_use(self->bfc, (void *)(intptr_t)stream, (void *)piece->data));
    for (uint64_t g = first; g < first + (piece->bytes + BFC_GRAIN - 1) / BFC_GRAIN; g++)
        self->grains[g].at[stream] = device.queued[stream];
}

static void model_step(struct model *self)
{
    unsigned i = (unsigned)random_range(&self->random, PIECES);
    if (self->pieces[i].data && random_range(&self->random, 4) == 0)
        model_use(self, i);
    else if (self->pieces[i].data)
        model_put(self, i);
    else
        model_get(self, i);
    if (random_range(&self->random, 4) == 0) {
        uint64_t stream = random_range(&self->random, STREAMS);
        uint64_t behind = device.queued[stream] - device.done[stream];
        device.done[stream] += random_range(&self->random, behind + 1);
    }
    if (random_range(&self->random, 5000) == 0)
        (void)bfc_trim(self->bfc);
}

static void random_against_model(void **state)
{
    const char *text = getenv("TRYST_TEST_OPERATIONS");
    uint64_t operations = text ? strtoull(text, NULL, 0) : 100000;
    struct model *self = calloc(1, sizeof *self);
    assert_non_null(self);
    self->grains = calloc(GRAINS, sizeof *self->grains);
    assert_non_null(self->grains);
    random_seed(&self->random, unit_seed());
    self->bfc = open_with(UINT64_MAX, 3000 * K, 64 * K);
    for (uint64_t n = 0; n < operations; n++) {
        model_step(self);
        if (n % 512 == 0)
            assert_true(bfc_is_valid(self->bfc));
        assert_true(counts_of(self->bfc).reserved_bytes <= 3000 * K);
    }
    print_message("%llu refused of %llu\n", (unsigned long long)self->refused,
                  (unsigned long long)operations);
    for (unsigned i = 0; i < PIECES; i++)
        if (self->pieces[i].data)
            model_put(self, i);
    memcpy(device.done, device.queued, sizeof device.done);
    assert_int_equal(bfc_trim(self->bfc) > 0, true);
    assert_int_equal(counts_of(self->bfc).reserved_bytes, 0);
    close_empty(self->bfc);
    free(self->grains);
    free(self);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(smallest_that_fits),
        cmocka_unit_test(splits_and_grows_together),
        cmocka_unit_test(regions_double),
        cmocka_unit_test(limit_holds),
        cmocka_unit_test(strangers_are_refused),
        cmocka_unit_test(streams),
        cmocka_unit_test(waits_merge),
        cmocka_unit_test(waits_of_several_do_not_merge),
        cmocka_unit_test(waits_of_one_handle_do_not_merge),
        cmocka_unit_test(forgotten_streams),
        cmocka_unit_test(waits_are_inherited),
        cmocka_unit_test(uses_are_kept),
        cmocka_unit_test(allocations_fail),
        cmocka_unit_test(random_against_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
