/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The live page. page.h describes its use, tryst/live.h its layout.
 *
 * Memory order, as in trace.c: the writer stores `begun` = n + 1 (relaxed), each word
 * with release, and `ended` = n + 1 with release. A reader loads ended (acquire), each
 * word (acquire), begun (acquire). If one of its words came from a later write m, the
 * acquire of that word has synchronised with its release, so begun = m is visible, and
 * differs from the `ended` that was read. If begun equals ended, every word belongs to
 * that write. On x86 all of these are plain moves.
 */
#include "page.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/memory/alloc.h"
#include "transports/memory/memfd.h"
#include "tryst/tryst.h"

/* The most peers on the page: 184 KiB. */
enum { PEERS_MAX = 1024 };

#define WORD        sizeof(uint64_t)
#define HEADER_ROOM 512u

_Static_assert(sizeof(struct tryst_live_header) <= HEADER_ROOM, "header");
_Static_assert(sizeof(struct tryst_live_peer) == 184, "peer");
_Static_assert(sizeof(struct tryst_live_op) == 472, "operation");

#define WORD_IS(field, at) \
    _Static_assert(offsetof(struct tryst_live_op, field) == (at)*WORD, "word")
WORD_IS(kind, LIVE_WHAT);
WORD_IS(step, LIVE_STEP);
WORD_IS(number, LIVE_NUMBER);
WORD_IS(bytes, LIVE_BYTES);
WORD_IS(done_bytes, LIVE_DONE);
WORD_IS(since_ns, LIVE_SINCE);
WORD_IS(key_hash, LIVE_HASH);
WORD_IS(key_bytes, LIVE_KEY_BYTES);
WORD_IS(key, LIVE_KEY);
WORD_IS(behind, LIVE_BEHIND);

/* ---- words and records ------------------------------------------------------------- */

static inline live_word *word_of(uint64_t *field)
{
    return (live_word *)(void *)field;
}

static void record_begin(live_word *record)
{
    /* relaxed: this thread is the only writer, and the words' release comes after. */
    uint64_t n = atomic_load_explicit(&record[0], memory_order_relaxed);
    atomic_store_explicit(&record[0], n + 1, memory_order_relaxed);
}

static void record_end(live_word *record)
{
    live_put(&record[1], atomic_load_explicit(&record[0], memory_order_relaxed));
}

/* Write a record of `bytes`. The first two words of `value` are skipped: they are `begun`
 * and `ended`. */
static void record_put(void *at, const void *value, size_t bytes)
{
    live_word *record = at;
    record_begin(record);
    for (size_t i = 2; i < bytes / WORD; i++) {
        uint64_t word;
        memcpy(&word, (const char *)value + i * WORD, WORD);
        live_put(&record[i], word);
    }
    record_end(record);
}

/* ---- operations -------------------------------------------------------------------- */

__attribute__((noinline)) void live_key_put(live_word *record, const tryst_key *key)
{
    size_t bytes = key ? key->bytes : 0;
    live_put(&record[LIVE_HASH], key ? key->hash : 0);
    live_put(&record[LIVE_KEY_BYTES], bytes);
    if (bytes > TRYST_LIVE_KEY_MAX)
        bytes = TRYST_LIVE_KEY_MAX;
    uint64_t word;
    size_t at = 0;
    for (; at + WORD <= bytes; at += WORD) {
        memcpy(&word, key->string + at, WORD);
        live_put(&record[LIVE_KEY + at / WORD], word);
    }
    if (at == bytes)
        return;
    word = 0;
    memcpy(&word, key->string + at, bytes - at);
    live_put(&record[LIVE_KEY + at / WORD], word);
}

void live_op_put(live_word *record, const struct live_op *op, uint64_t done_bytes,
                 const struct live_hold *hold)
{
    record_begin(record);
    live_what_put(record, op->kind_state | (uint32_t)hold->why << 16, op->rank);
    /* a receive may have got its shape meanwhile */
    live_put(&record[LIVE_BYTES], op->bytes);
    live_put(&record[LIVE_DONE], done_bytes < op->bytes ? done_bytes : op->bytes);
    live_put(&record[LIVE_BEHIND], hold->behind);
    record_end(record);
}

/* ---- peers and the rest ------------------------------------------------------------ */

void live_peer_put(struct live *live, const struct tryst_live_peer *peer)
{
    record_put(live->page + live->header->peers_offset +
                   (size_t)peer->rank * sizeof *peer,
               peer, sizeof *peer);
}

void live_counts(struct live *live, uint64_t pending, uint64_t completed, uint64_t now_ns)
{
    live_put(word_of(&live->header->pending), pending);
    live_put(word_of(&live->header->completed), completed);
    live_put(word_of(&live->header->seen_ns), now_ns);
}

void live_steps(struct live *live, uint64_t end, uint64_t open)
{
    live_put(word_of(&live->header->steps_end), end);
    live_put(word_of(&live->header->steps_open), open);
}

void live_transport(struct live *live, int kind)
{
    live_word *word = word_of(&live->header->transports);
    live_put(word, atomic_load_explicit(word, memory_order_relaxed) | 1ull << kind);
}

void live_phase(struct live *live, enum tryst_live_phase phase)
{
    live_put(word_of(&live->header->phase), phase);
}

void live_session(struct live *live, uint64_t session)
{
    live_put(word_of(&live->header->session), session);
}

/* ---- waiting ----------------------------------------------------------------------- */

/* Return the thread's id. gettid costs a system call, so the id of the last thread is
 * kept. */
static int32_t thread_id(struct live *live)
{
    if (!live->tid || !pthread_equal(live->thread, pthread_self())) {
        live->thread = pthread_self();
        live->tid = (int32_t)syscall(SYS_gettid);
    }
    return live->tid;
}

/* Return 1 + the place of `record`; 0 for NULL. */
static uint64_t place_of(const struct live *live, const live_word *record)
{
    const struct tryst_live_op *op = (const void *)record;
    return op ? 1 + (uint64_t)(op - live->ops) : 0;
}

void live_wait(struct live *live, enum tryst_live_wait how, const void *op,
               const live_word *record, uint64_t now_ns)
{
    struct tryst_live_where where = {.since_ns = now_ns,
                                     .op = place_of(live, record),
                                     .waits = how,
                                     .tid = thread_id(live)};
    live->waits = how;
    live->waits_for = op;
    record_put(&live->header->where, &where, sizeof where);
}

void live_leave(struct live *live)
{
    if (live->waits == TRYST_LIVE_BUSY)
        return;
    struct tryst_live_where where = {.waits = TRYST_LIVE_BUSY, .tid = live->tid};
    live->waits = TRYST_LIVE_BUSY;
    live->waits_for = NULL;
    record_put(&live->header->where, &where, sizeof where);
}

/* ---- open and close ---------------------------------------------------------------- */

static void header_put(struct live *live, int rank, int size, const void *held,
                       uint64_t now_ns)
{
    struct tryst_live_header *header = live->header;
    *header = (struct tryst_live_header){.layout = TRYST_LIVE_LAYOUT,
                                         .header_bytes = sizeof *header,
                                         .peers_offset = HEADER_ROOM,
                                         .peers_count = live->peers_count,
                                         .peer_bytes = sizeof(struct tryst_live_peer),
                                         .ops_count = LIVE_OPS_MAX,
                                         .op_bytes = sizeof(struct tryst_live_op),
                                         .page_bytes = live->page_bytes,
                                         .pid = getpid(),
                                         .rank = rank,
                                         .size = size,
                                         .opened_ns = now_ns,
                                         .held_address = (uint64_t)(uintptr_t)held,
                                         .seen_ns = now_ns,
                                         .phase = TRYST_LIVE_GATHERING};
    header->ops_offset =
        HEADER_ROOM + live->peers_count * (uint32_t)sizeof(struct tryst_live_peer);
    live->ops = (struct tryst_live_op *)(void *)(live->page + header->ops_offset);
    live->free_count = LIVE_OPS_MAX;
    snprintf(header->version, sizeof header->version, "%d.%d.%d", TRYST_VERSION_MAJOR,
             TRYST_VERSION_MINOR, TRYST_VERSION_PATCH);
    /* The magic comes last: a page without it is incomplete. */
    live_put(word_of(&header->magic), TRYST_LIVE_MAGIC);
}

static tryst_status page_map(struct live *live, int rank)
{
    char name[sizeof TRYST_LIVE_NAME + 12];
    snprintf(name, sizeof name, TRYST_LIVE_NAME "%d", rank);
    tryst_status status = memfd_create_sealed(name, live->page_bytes, &live->fd);
    if (status != TRYST_OK)
        return status;
    void *page =
        mmap(NULL, live->page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, live->fd, 0);
    if (page == MAP_FAILED) {
        close(live->fd);
        return TRYST_E_NOMEM;
    }
    memfd_seal_writes(live->fd); /* other processes can only read the page */
    live->page = page;
    live->header = page;
    return TRYST_OK;
}

tryst_status live_open(int rank, int size, const void *held, uint64_t now_ns,
                       struct live **live_p)
{
    struct live *live = mem_zalloc(sizeof *live);
    if (!live)
        return TRYST_E_NOMEM;
    live->peers_count = (uint32_t)(size < PEERS_MAX ? size : PEERS_MAX);
    live->page_bytes = HEADER_ROOM + live->peers_count * sizeof(struct tryst_live_peer) +
                       LIVE_OPS_MAX * sizeof(struct tryst_live_op);
    tryst_status status = page_map(live, rank);
    if (status != TRYST_OK) {
        mem_free(live);
        return status;
    }
    header_put(live, rank, size, held, now_ns);
    *live_p = live;
    return TRYST_OK;
}

void live_close(struct live *live)
{
    close(live->fd);
    munmap(live->page, live->page_bytes);
    mem_free(live);
}

void live_forked(struct live *live)
{
    close(live->fd);
}
