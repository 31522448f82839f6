/* SPDX-License-Identifier: Apache-2.0 */
/* The trace's rings: recording, and copying events out while threads record; see trace.h.
 * trace_json.c writes the copies.
 *
 * Memory order. Event n lies in slot n mod capacity. Its writer stores `begun` = n+1
 * (relaxed), then each word of the event with release, then `ended` = n+1 with release. A
 * reader loads `ended` with acquire and may then copy any event i below it: each word
 * with acquire, and then `begun`. If a copied word came from a later event m = i + k *
 * capacity, the acquire of that word has synchronised with its release, so the store of
 * `begun` = m+1 before it is visible, and the reader finds begun > i + capacity and
 * discards the copy. Otherwise every word is event i's. No fence is needed, and on x86
 * these are plain loads and stores.
 *
 * A thread finds its ring through a thread-local cache. A thread without a ring takes the
 * lock, and prefers the ring of a thread that has ended: a short-lived thread then needs
 * no new ring, and continues that thread's row of the timeline. Rings live until the
 * trace closes. */
#include "core/log/trace.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/memory/alloc.h"
#include "trace_ring.h"
#include "trace_text.h"

#define EVENTS_MAX ((size_t)1 << 32)

/* Ids are never reused, so a cache entry of a closed trace matches no trace. */
static _Atomic uint64_t trace_ids; /* relaxed: ids only have to differ */
static _Thread_local struct {
    uint64_t trace_id;
    struct trace_ring *ring;
} cache;

_Static_assert(sizeof(struct trace_event) == TRACE_WORDS * sizeof(uint64_t),
               "an event is copied word by word");

tryst_status trace_open(size_t events_per_thread, const struct clock *clock,
                        struct trace **trace_p)
{
    if (events_per_thread == 0 || events_per_thread > EVENTS_MAX)
        return TRYST_E_INVALID;
    struct trace *trace = mem_zalloc(sizeof *trace);
    if (!trace)
        return TRYST_E_NOMEM;
    trace->capacity = 1;
    while (trace->capacity < events_per_thread)
        trace->capacity *= 2;
    trace->clock = clock;
    trace->id = 1 + atomic_fetch_add_explicit(&trace_ids, 1, memory_order_relaxed);
    hash_table_init(&trace->texts);
    pthread_mutex_init(&trace->lock, NULL);
    *trace_p = trace;
    return TRYST_OK;
}

void trace_close(struct trace *trace)
{
    if (!trace)
        return;
    for (struct trace_ring *ring = trace->rings, *next; ring; ring = next) {
        next = ring->next;
        mem_free(ring);
    }
    trace_texts_close(trace);
    pthread_mutex_destroy(&trace->lock);
    mem_free(trace);
}

uint64_t trace_clock_ns(const struct trace *trace)
{
    return clock_now_ns(trace->clock);
}

/* -------------------------------------------------------------------- a thread's ring */

static bool thread_has_ended(pid_t thread)
{
    return syscall(SYS_tgkill, getpid(), thread, 0) != 0 && errno == ESRCH;
}

static struct trace_ring *ring_open(struct trace *trace)
{
    struct trace_ring *ring =
        mem_zalloc(sizeof *ring + trace->capacity * sizeof(struct trace_event));
    if (!ring)
        return NULL;
    ring->capacity = trace->capacity;
    ring->row = trace->rings ? trace->rings->row + 1 : 0;
    ring->next = trace->rings;
    trace->rings = ring;
    return ring;
}

/* Find a ring that this thread may write: its own, or the ring of an ended thread. The
 * caller holds the lock. */
static struct trace_ring *ring_find(struct trace *trace, pid_t thread)
{
    for (struct trace_ring *ring = trace->rings; ring; ring = ring->next)
        if (ring->thread == thread)
            return ring;
    for (struct trace_ring *ring = trace->rings; ring; ring = ring->next)
        if (thread_has_ended(ring->thread))
            return ring;
    return NULL;
}

/* Return the calling thread's ring; NULL without memory, and then at each later call of
 * this thread too. */
static struct trace_ring *ring_of_thread(struct trace *trace)
{
    if (cache.trace_id == trace->id)
        return cache.ring;
    int kept_errno = errno;
    pid_t thread = (pid_t)syscall(SYS_gettid);
    pthread_mutex_lock(&trace->lock);
    struct trace_ring *ring = ring_find(trace, thread);
    if (!ring)
        ring = ring_open(trace);
    if (ring)
        ring->thread = thread;
    pthread_mutex_unlock(&trace->lock);
    cache.ring = ring;
    cache.trace_id = trace->id;
    errno = kept_errno;
    return cache.ring;
}

void trace_thread_name(struct trace *trace, const char *name)
{
    if (!trace)
        return;
    struct trace_ring *ring = ring_of_thread(trace);
    if (!ring)
        return;
    pthread_mutex_lock(&trace->lock);
    strncpy(ring->name, name, sizeof ring->name - 1);
    pthread_mutex_unlock(&trace->lock);
}

/* -------------------------------------------------------------------- record and copy */

void trace_record(struct trace *trace, const struct trace_event *event)
{
    struct trace_ring *ring = ring_of_thread(trace);
    if (!ring) {
        atomic_fetch_add_explicit(&trace->dropped_count, 1, memory_order_relaxed);
        return;
    }
    uint64_t words[TRACE_WORDS];
    memcpy(words, event, sizeof words);
    /* relaxed: only this thread writes `begun` */
    uint64_t n = atomic_load_explicit(&ring->begun, memory_order_relaxed);
    _Atomic uint64_t *slot = ring->words + (n & (ring->capacity - 1)) * TRACE_WORDS;
    atomic_store_explicit(&ring->begun, n + 1, memory_order_relaxed);
    for (int i = 0; i < TRACE_WORDS; i++)
        atomic_store_explicit(&slot[i], words[i], memory_order_release);
    atomic_store_explicit(&ring->ended, n + 1, memory_order_release);
}

bool trace_ring_copy(struct trace_ring *ring, uint64_t n, struct trace_event *event_p)
{
    _Atomic uint64_t *slot = ring->words + (n & (ring->capacity - 1)) * TRACE_WORDS;
    uint64_t words[TRACE_WORDS];
    for (int i = 0; i < TRACE_WORDS; i++)
        words[i] = atomic_load_explicit(&slot[i], memory_order_acquire);
    if (atomic_load_explicit(&ring->begun, memory_order_acquire) > n + ring->capacity)
        return false;
    memcpy(event_p, words, sizeof words);
    return true;
}

uint64_t trace_ring_ended(struct trace_ring *ring)
{
    return atomic_load_explicit(&ring->ended, memory_order_acquire);
}

struct trace_ring *trace_rings(struct trace *trace)
{
    pthread_mutex_lock(&trace->lock);
    struct trace_ring *rings = trace->rings;
    pthread_mutex_unlock(&trace->lock);
    return rings;
}

void trace_ring_name(struct trace *trace, const struct trace_ring *ring,
                     char name_p[TRACE_NAME_BYTES])
{
    pthread_mutex_lock(&trace->lock);
    memcpy(name_p, ring->name, TRACE_NAME_BYTES);
    pthread_mutex_unlock(&trace->lock);
}

uint64_t trace_lost_count(struct trace *trace)
{
    uint64_t lost = atomic_load_explicit(&trace->dropped_count, memory_order_relaxed);
    for (struct trace_ring *ring = trace_rings(trace); ring; ring = ring->next) {
        uint64_t ended = trace_ring_ended(ring);
        if (ended > ring->capacity)
            lost += ended - ring->capacity;
    }
    return lost;
}
