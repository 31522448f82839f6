/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The take-over (takeover.h): what a stream that waits for a collective needs, and the
 * driver calls that let it wait.
 *
 * Order of the calls, which is the argument that nothing hangs: what may wait for idle
 * streams comes first, while no gate is closed. Then the fetch is queued, whole. Only
 * then the caller's stream waits for the gate, so another thread's first launch that
 * waits for this stream finds the collective independent of any call here. The calls
 * behind the wait queue the bring. If another thread holds the driver meanwhile, it waits
 * for the gate, which opens: the progress domain has the take-over before the wait.
 *
 * Order of memory: the device writes bytes, then the word, with release; the progress
 * thread loads the word with acquire. In the other direction the progress thread writes
 * bytes to the shadow, then stores the gate with release, for which the stream waits.
 * `ended` of the watch publishes its status and text, and `is_queued` what the calls
 * behind the wait have left: the progress domain reads neither before.
 */
#include "takeover.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "copier_streams.h"
#include "core/memory/alloc.h"
#include "core/os/clock.h"
#include "shadows.h"
#include "transports/memory/closed_gates.h"
#include "transports/memory/memory_ops.h"

enum {
    TAKEOVERS = 16,
    LINE_BYTES = 64, /* one word a line: the device polls and writes it */
    /* Pieces of a fetch: each costs two entries of the stream's queue, of which a driver
     * holds about a thousand. */
    PIECES_MAX = 64,
    TRIES = 16 /* of each call that marks the end of copies */
};

enum word { GATE, FETCHED, END, WORDS };

struct takeover {
    struct takeovers *takeovers;
    const struct memory_ops *ops;
    int32_t device;
    void *stream;           /* of the fetch */
    void *event;            /* behind the fetch, then behind the end word */
    uint32_t *words;        /* of all; see `word` */
    uint32_t values[WORDS]; /* as they are when the take-over has ended */
    uint32_t before;        /* of FETCHED: its value at the begin */
    uint64_t piece_bytes;
    _Atomic(bool) is_used;   /* from takeover_begin to takeover_put */
    bool is_closed;          /* the progress domain's once it has it: the gate */
    _Atomic(bool) is_queued; /* takeover_begin has made its last call */
    /* of the driver's first failure in takeover_begin */
    tryst_status status;
    char text[COPIER_TEXT_BYTES];
    struct copier_range watch; /* waits for `event` */
    _Atomic(bool) watch_ended;
};

struct takeover_home {
    struct list_node node;
    const struct memory_ops *ops;
    int32_t device;
    void *page; /* of the words */
    struct takeover takeovers[TAKEOVERS];
};

static_assert(TAKEOVERS * WORDS * LINE_BYTES <= 4096, "the words fit a page");

static uint32_t *word(const struct takeover *takeover, enum word which)
{
    return takeover->words + which * (LINE_BYTES / sizeof *takeover->words);
}

/* ---- what take-overs of a device share --------------------------------------------- */

void takeovers_open(struct takeovers *takeovers, struct closed_gates *closed)
{
    list_init(&takeovers->homes);
    takeovers->closed = closed;
}

bool takeovers_closed(const struct takeovers *takeovers)
{
    /* relaxed: a gate is closed under copier_hold; a late view of its opening only delays
     * what waits for it. */
    return atomic_load_explicit(&takeovers->closed->colls, memory_order_relaxed) != 0;
}

static void home_close(struct takeover_home *home)
{
    for (int i = 0; i < TAKEOVERS; i++) {
        const struct takeover *takeover = &home->takeovers[i];
        if (takeover->event)
            home->ops->event_close(home->device, takeover->event);
        if (takeover->stream)
            home->ops->stream_close(home->device, takeover->stream);
    }
    if (home->page)
        home->ops->pinned_free(home->device, home->page, 4096);
    mem_free(home);
}

void takeovers_close(struct takeovers *takeovers)
{
    struct list_node *node;
    while ((node = list_pop_front(&takeovers->homes)) != NULL)
        home_close(container_of(node, struct takeover_home, node));
}

static struct takeover_home *home_find(const struct takeovers *takeovers,
                                       const struct memory_ops *ops, int32_t device)
{
    list_for_each_safe (&takeovers->homes, node, after) {
        struct takeover_home *home = container_of(node, struct takeover_home, node);
        if (home->ops == ops && home->device == device)
            return home;
    }
    return NULL;
}

static tryst_status takeover_make(struct takeover_home *home, struct takeovers *takeovers,
                                  int index)
{
    struct takeover *takeover = &home->takeovers[index];
    size_t at = (size_t)index * WORDS * LINE_BYTES;
    *takeover = (struct takeover){.takeovers = takeovers,
                                  .ops = home->ops,
                                  .device = home->device,
                                  .words = (uint32_t *)(void *)((char *)home->page + at)};
    atomic_init(&takeover->watch_ended, true);
    tryst_status status = home->ops->event_open(home->device, &takeover->event);
    return status == TRYST_OK
               ? home->ops->stream_open(home->device, true, &takeover->stream)
               : status;
}

/* Use both operations on words once, so that kernels for them are loaded here. */
static tryst_status words_try(const struct takeover_home *home)
{
    const struct takeover *first = home->takeovers;
    tryst_status status =
        home->ops->stream_write_word(home->device, first->stream, word(first, END), 0);
    return status == TRYST_OK ? home->ops->stream_wait_word(home->device, first->stream,
                                                            word(first, END), 0)
                              : status;
}

static tryst_status home_open(struct takeovers *takeovers, const struct memory_ops *ops,
                              int32_t device)
{
    struct takeover_home *home = mem_zalloc(sizeof *home);
    if (!home)
        return TRYST_E_NOMEM;
    home->ops = ops;
    home->device = device;
    tryst_status status = ops->pinned_alloc(device, 4096, &home->page);
    if (status == TRYST_OK)
        memset(home->page, 0, 4096);
    for (int i = 0; i < TAKEOVERS && status == TRYST_OK; i++)
        status = takeover_make(home, takeovers, i);
    if (status == TRYST_OK)
        status = words_try(home);
    if (status != TRYST_OK) {
        home_close(home);
        return status;
    }
    list_push_back(&takeovers->homes, &home->node);
    return TRYST_OK;
}

/* Return a FREE take-over. NULL: there is none. Acquire: pairs with the releases of
 * takeover_put and watch_moved. */
static struct takeover *free_find(struct takeover_home *home)
{
    for (int i = 0; i < TAKEOVERS; i++) {
        struct takeover *takeover = &home->takeovers[i];
        if (!atomic_load_explicit(&takeover->is_used, memory_order_acquire) &&
            atomic_load_explicit(&takeover->watch_ended, memory_order_acquire))
            return takeover;
    }
    return NULL;
}

/* ---- before a range is taken ------------------------------------------------------- */

static bool shadow_is_plain(const struct shadow *shadow)
{
    return shadow && shadow->data && !shadow_is_pinned(shadow);
}

/* Pin what is not pinned: copies of other memory may make the caller wait. */
static tryst_status shadows_prepare(const struct takeover_params *params)
{
    tryst_status status = TRYST_OK;
    for (int i = 0; i < 2 && status == TRYST_OK; i++)
        if (shadow_is_plain(params->shadow[i]))
            status = shadow_pin(params->shadows, params->ops, params->device,
                                params->shadow[i]);
    return status;
}

/* Open what all take-overs of a device share, while no gate is closed. */
static tryst_status home_prepare(struct copier *copier, const struct memory_ops *ops,
                                 int32_t device)
{
    struct takeovers *takeovers = copier_takeovers(copier);
    if (home_find(takeovers, ops, device))
        return TRYST_OK;
    if (!ops->stream_write_word)
        return TRYST_E_UNSUPPORTED;
    tryst_status status = copier_streams_prepare(copier, ops, device);
    return status == TRYST_OK ? home_open(takeovers, ops, device) : status;
}

/* Pin what shadows have missed, and room for more: nothing is pinned while a gate
 * is closed. */
static void room_pin(struct shadows *shadows, const struct memory_ops *ops,
                     int32_t device)
{
    shadows_reserve(shadows, ops, device);
    shadows_pin(shadows, true, clock_monotonic_ns());
}

/* Prepare for later take-overs, before a stream waits by a gate. */
static void before_gate(struct copier *copier, struct shadows *shadows,
                        const struct memory_ops *ops, int32_t device)
{
    if (!takeovers_closed(copier_takeovers(copier)) &&
        home_prepare(copier, ops, device) == TRYST_OK)
        room_pin(shadows, ops, device);
}

tryst_status takeovers_prepare(struct copier *copier, struct shadows *shadows,
                               const struct memory_ops *ops, int32_t device)
{
    if (!copier_hold(copier))
        return TRYST_AGAIN;
    before_gate(copier, shadows, ops, device);
    copier_release(copier);
    return TRYST_OK;
}

/* Make all calls that may wait for idle streams. TRYST_AGAIN: a gate is closed. */
static tryst_status calls_prepare(const struct takeover_params *params)
{
    struct takeovers *takeovers = copier_takeovers(params->copier);
    bool is_open = home_find(takeovers, params->ops, params->device);
    bool is_pinned =
        !shadow_is_plain(params->shadow[0]) && !shadow_is_plain(params->shadow[1]);
    if (takeovers_closed(takeovers))
        return is_open && is_pinned ? TRYST_OK : TRYST_AGAIN;
    tryst_status status = home_prepare(params->copier, params->ops, params->device);
    if (status != TRYST_OK)
        return status;
    /* Without room, the copier goes on and the caller waits for it. */
    bool is_good = shadows_prepare(params) == TRYST_OK;
    room_pin(params->shadows, params->ops, params->device);
    return is_good ? TRYST_OK : TRYST_AGAIN;
}

static bool ranges_may_be_taken(const struct takeover_params *params)
{
    for (uint32_t i = 0; i < params->count; i++)
        if (!copier_may_take(params->copier, params->range(params->arg, i)))
            return false;
    return params->count > 0 && params->ops->stream_write_word;
}

/* Prepare, and find a take-over. TRYST_OK, TRYST_AGAIN, TRYST_E_UNSUPPORTED. */
static tryst_status prepare(const struct takeover_params *params,
                            struct takeover **takeover_p)
{
    if (!ranges_may_be_taken(params)) {
        before_gate(params->copier, params->shadows, params->ops, params->device);
        return TRYST_E_UNSUPPORTED;
    }
    tryst_status status = calls_prepare(params);
    if (status != TRYST_OK)
        return status == TRYST_AGAIN ? status : TRYST_E_UNSUPPORTED;
    struct takeover *takeover = free_find(
        home_find(copier_takeovers(params->copier), params->ops, params->device));
    if (!takeover)
        return TRYST_AGAIN;
    /* The word has this value already: a stream that is being captured refuses. */
    status = params->ops->stream_write_word(params->device, params->stream,
                                            word(takeover, END), takeover->values[END]);
    if (status != TRYST_OK)
        return TRYST_E_UNSUPPORTED;
    *takeover_p = takeover;
    return TRYST_OK;
}

/* ---- the fetch --------------------------------------------------------------------- */

/* Note the first failure of the driver. True: `status` is TRYST_OK, and so were all
 * before it. */
static bool note(struct takeover *takeover, tryst_status status)
{
    if (status != TRYST_OK && takeover->status == TRYST_OK) {
        takeover->status = status;
        (void)snprintf(takeover->text, sizeof takeover->text, "%s",
                       takeover->ops->error_text());
    }
    return takeover->status == TRYST_OK;
}

static uint32_t pieces_of(const struct takeover *takeover, const struct copier_rest *rest)
{
    uint64_t bytes = rest->upto - rest->from;
    uint64_t pieces = (bytes + takeover->piece_bytes - 1) / takeover->piece_bytes;
    return pieces || !rest->flying ? (uint32_t)pieces : 1;
}

/* Return where piece `index` of the rest ends. */
static uint64_t piece_end(const struct takeover *takeover, const struct copier_rest *rest,
                          uint32_t index)
{
    uint64_t end = rest->from + (index + 1) * takeover->piece_bytes;
    return end < rest->upto ? end : rest->upto;
}

/* Let `stream` wait for an event behind copies. False: the device is lost. */
static bool stream_follow(struct takeover *takeover, void *stream, void *event)
{
    for (int i = 0; i < TRIES; i++) {
        tryst_status status = takeover->ops->stream_wait(takeover->device, stream, event);
        if (status == TRYST_OK)
            return true;
        (void)note(takeover, status);
    }
    return false;
}

/* Let both streams wait for the pieces in flight, also those of a range that has failed:
 * the end word comes behind them. False: the device is lost. */
static bool flying_await(struct takeover *takeover, const struct takeover_params *params)
{
    bool is_good = true;
    for (uint32_t i = 0; i < params->count && is_good; i++) {
        const struct copier_range *range = params->range(params->arg, i);
        void *stream = range->way == COPIER_FETCH ? takeover->stream : params->stream;
        if (range->rest.flying)
            is_good = stream_follow(takeover, stream, range->rest.flying);
    }
    return is_good;
}

/* Let `stream` wait for the ready event of a range, unless it has passed. */
static bool ready_await(struct takeover *takeover, void *stream,
                        const struct copier_rest *rest)
{
    return !rest->ready || note(takeover, takeover->ops->stream_wait(
                                              takeover->device, stream, rest->ready));
}

/* Queue a piece of a fetch, and the word behind it. */
static bool piece_fetch(struct takeover *takeover, const struct copier_range *range,
                        uint64_t at, uint64_t end)
{
    const struct memory_ops *ops = takeover->ops;
    if (end > at &&
        !note(takeover, ops->copy_async(takeover->device, takeover->stream,
                                        (char *)range->host_data + at,
                                        (char *)range->device_data + at, end - at)))
        return false;
    return note(takeover, ops->stream_write_word(takeover->device, takeover->stream,
                                                 word(takeover, FETCHED),
                                                 ++takeover->values[FETCHED]));
}

static void range_fetch(struct takeover *takeover, struct copier_range *range)
{
    const struct copier_rest *rest = &range->rest;
    uint64_t at = rest->from;
    range->pieces_before = takeover->values[FETCHED] - takeover->before;
    range->pieces = pieces_of(takeover, rest);
    if (!range->pieces || !ready_await(takeover, takeover->stream, rest))
        return;
    for (uint32_t i = 0; i < range->pieces; i++) {
        uint64_t end = piece_end(takeover, rest, i);
        if (!piece_fetch(takeover, range, at, end))
            return;
        at = end;
    }
}

/* Choose pieces of a size such that there are few. */
static void pieces_size(struct takeover *takeover, const struct takeover_params *params)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < params->count; i++) {
        const struct copier_range *range = params->range(params->arg, i);
        if (range->way == COPIER_FETCH)
            bytes += range->rest.upto - range->rest.from;
    }
    takeover->piece_bytes =
        bytes / PIECES_MAX > COPIER_WHOLE_BYTES ? bytes / PIECES_MAX : COPIER_WHOLE_BYTES;
}

static void fetch_queue(struct takeover *takeover, const struct takeover_params *params)
{
    pieces_size(takeover, params);
    for (uint32_t i = 0; i < params->count; i++) {
        struct copier_range *range = params->range(params->arg, i);
        if (range->way == COPIER_FETCH && takeover->status == TRYST_OK)
            range_fetch(takeover, range);
    }
}

/* ---- the caller's stream ----------------------------------------------------------- */

/* Close the gate, hand the take-over to the progress domain, and let the stream wait. A
 * gate that opens before the wait is queued lets the stream pass. */
static void gate_queue(struct takeover *takeover, const struct takeover_params *params)
{
    void *stream = params->stream;
    takeover->is_closed = true;
    closed_gates_add(takeover->takeovers->closed, true);
    params->taken(params->arg, takeover);
    (void)note(takeover, takeover->ops->stream_wait_word(takeover->device, stream,
                                                         word(takeover, GATE),
                                                         takeover->values[GATE]));
}

static void bring_queue(struct takeover *takeover, const struct takeover_params *params)
{
    for (uint32_t i = 0; i < params->count; i++) {
        const struct copier_range *range = params->range(params->arg, i);
        const struct copier_rest *rest = &range->rest;
        if (range->way != COPIER_BRING || takeover->status != TRYST_OK)
            continue;
        bool is_good = ready_await(takeover, params->stream, rest);
        if (is_good && rest->upto > rest->from)
            (void)note(takeover,
                       takeover->ops->copy_async(takeover->device, params->stream,
                                                 (char *)range->device_data + rest->from,
                                                 (char *)range->host_data + rest->from,
                                                 rest->upto - rest->from));
    }
}

/* Record the event in `stream`. False: the device is lost. */
static bool event_set(struct takeover *takeover, void *stream)
{
    for (int i = 0; i < TRIES; i++) {
        tryst_status status =
            takeover->ops->event_record(takeover->device, stream, takeover->event);
        if (status == TRYST_OK)
            return true;
        (void)note(takeover, status);
    }
    return false;
}

static void watch_moved(struct copier_range *range)
{
    struct takeover *takeover = container_of(range, struct takeover, watch);
    if (range->ended) /* release: pairs with takeover_failure and free_find */
        atomic_store_explicit(&takeover->watch_ended, true, memory_order_release);
}

/* Queue the end word behind fetch and bring, and let the copier poll the event behind it.
 * Without an event the device is lost: nothing of it is awaited. */
static void end_queue(struct takeover *takeover, const struct takeover_params *params,
                      bool has_event)
{
    void *stream = params->stream;
    (void)note(takeover, takeover->ops->stream_write_word(takeover->device, stream,
                                                          word(takeover, END),
                                                          takeover->values[END]));
    has_event = has_event && event_set(takeover, stream);
    takeover->watch = (struct copier_range){.ops = takeover->ops,
                                            .device = takeover->device,
                                            .ready = takeover->event,
                                            .moved = watch_moved};
    atomic_store_explicit(&takeover->watch_ended, !has_event, memory_order_relaxed);
    if (has_event && copier_add(params->copier, &takeover->watch) != TRYST_OK)
        watch_moved(&takeover->watch); /* cannot be: the copier's thread exists */
}

/* ---- begin ------------------------------------------------------------------------- */

/* Choose the values of the words. The streams have done all of the take-over before, of
 * which a failed driver may have left words unwritten. */
static void values_raise(struct takeover *takeover)
{
    atomic_store_explicit(&takeover->is_queued, false, memory_order_relaxed);
    takeover->status = TRYST_OK;
    takeover->text[0] = '\0';
    takeover->before = takeover->values[FETCHED];
    for (enum word which = GATE; which < WORDS; which++)
        __atomic_store_n(word(takeover, which), takeover->values[which],
                         __ATOMIC_RELAXED);
    takeover->values[GATE]++;
    takeover->values[END]++;
}

static void take(struct takeover *takeover, const struct takeover_params *params)
{
    atomic_store_explicit(&takeover->is_used, true, memory_order_relaxed);
    values_raise(takeover);
    for (uint32_t i = 0; i < params->count; i++)
        copier_take(params->copier, params->range(params->arg, i));
    bool has_event = flying_await(takeover, params);
    fetch_queue(takeover, params);
    has_event = event_set(takeover, takeover->stream) && has_event;
    if (takeover->status == TRYST_OK)
        gate_queue(takeover, params);
    else
        params->taken(params->arg, takeover);
    /* the fetch is done before the gate opens, unless the operation fails */
    has_event = has_event && stream_follow(takeover, params->stream, takeover->event);
    bring_queue(takeover, params);
    end_queue(takeover, params, has_event);
    /* release: see the top of the file. */
    atomic_store_explicit(&takeover->is_queued, true, memory_order_release);
}

tryst_status takeover_begin(const struct takeover_params *params)
{
    struct takeover *takeover = NULL;
    if (!copier_hold(params->copier))
        return TRYST_AGAIN;
    tryst_status status = prepare(params, &takeover);
    if (status == TRYST_OK) {
        take(takeover, params);
        status = takeover->status;
    }
    copier_release(params->copier);
    return status;
}

tryst_status takeover_follow(const struct takeover *takeover,
                             const struct memory_ops *ops, int32_t device, void *stream)
{
    return ops->stream_wait(device, stream, takeover->event);
}

/* ---- the progress domain ----------------------------------------------------------- */

/* True if a word has its value of this take-over. Acquire: see the top of the file. */
static bool has_value(const struct takeover *takeover, enum word which)
{
    uint32_t now = __atomic_load_n(word(takeover, which), __ATOMIC_ACQUIRE);
    return (int32_t)(now - takeover->values[which]) >= 0;
}

uint64_t takeover_fetched(const struct takeover *takeover,
                          const struct copier_range *range)
{
    uint32_t now = __atomic_load_n(word(takeover, FETCHED), __ATOMIC_ACQUIRE);
    uint32_t pieces = now - takeover->before;
    uint64_t done = atomic_load_explicit(&range->done, memory_order_relaxed);
    if (pieces <= range->pieces_before || !range->pieces)
        return done;
    pieces -= range->pieces_before;
    pieces = pieces < range->pieces ? pieces : range->pieces;
    return piece_end(takeover, &range->rest, pieces - 1);
}

void takeover_open(struct takeover *takeover)
{
    if (!takeover->is_closed)
        return;
    takeover->is_closed = false;
    /* release: see the top of the file. */
    __atomic_store_n(word(takeover, GATE), takeover->values[GATE], __ATOMIC_RELEASE);
    closed_gates_remove(takeover->takeovers->closed, true);
}

static bool watch_has_ended(const struct takeover *takeover)
{
    /* acquire: pairs with watch_moved. */
    return atomic_load_explicit(&takeover->watch_ended, memory_order_acquire);
}

bool takeover_moves(const struct takeover *takeover)
{
    return !takeover->is_closed || !has_value(takeover, FETCHED);
}

/* Acquire: see the top of the file. */
static bool is_queued(const struct takeover *takeover)
{
    return atomic_load_explicit(&takeover->is_queued, memory_order_acquire);
}

bool takeover_ended(const struct takeover *takeover)
{
    return is_queued(takeover) && (has_value(takeover, END) || watch_has_ended(takeover));
}

tryst_status takeover_failure(const struct takeover *takeover, const char **text_p)
{
    *text_p = takeover->text;
    if (!is_queued(takeover))
        return TRYST_OK;
    if (takeover->status != TRYST_OK || !watch_has_ended(takeover))
        return takeover->status;
    *text_p = takeover->watch.text;
    return takeover->watch.status;
}

void takeover_put(struct takeover *takeover)
{
    assert(!takeover->is_closed);
    /* release: pairs with free_find. */
    atomic_store_explicit(&takeover->is_used, false, memory_order_release);
}
