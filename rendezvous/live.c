/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the live page; live.h says what it is, tryst/live.h how it is laid out.
 *
 * Memory order, the same as that of trace.c: the writer stores `begun` = n + 1 (relaxed), each word
 * with release, `ended` = n + 1 with release. A reader loads ended (acquire), each word (acquire),
 * begun (acquire). If one of its words came from a later write m, the acquire of that word has
 * synchronised with its release, so begun = m is visible, and differs from the ended that it read.
 * If begun equals ended, every word is of that write. On x86 all of these are plain moves.
 *
 * Callers: submit.c, op.c and step.c (operations), the peers' files, rendezvous.c (tick), commsched
 * (open, close, sleep).
 */
#include "live.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/fork.h"
#include "core/hash.h"
#include "engine.h"
#include "peer.h"
#include "recv_run.h"
#include "transports/memory/memfd.h"
#include "tryst/tryst.h"
#include "want.h"

/** Peers that are shown: at most 152 KiB of page. */
enum { PEERS_MAX = 1024 };
/** Operations that a tick looks at: all that are on the page are among the oldest, usually. */
enum { TICK_OPS_MAX = 1024 };

#define WORD        sizeof(uint64_t)
#define HEADER_ROOM 512u

_Static_assert(sizeof(struct tryst_live_header) <= HEADER_ROOM, "header");
_Static_assert(sizeof(struct tryst_live_peer) == 152, "peer");
_Static_assert(sizeof(struct tryst_live_op) == 464, "operation");

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

#define STATE_IS(name) _Static_assert((int)OP_##name == (int)TRYST_LIVE_##name, "state")
STATE_IS(SUBMITTED);
STATE_IS(POSTED);
STATE_IS(WANTED);
STATE_IS(DEFERRED);
STATE_IS(INLINE);
STATE_IS(MATCHED);
STATE_IS(ENDING);
STATE_IS(SEND);
STATE_IS(RECV);
_Static_assert((int)OP_STEP_CLOSE == (int)TRYST_LIVE_CLOSE, "kind");
_Static_assert(offsetof(tryst_op, state) == offsetof(tryst_op, kind) + 1, "one load");

/* ---- words and records -------------------------------------------------------------------- */

static inline live_word *word_of(uint64_t *field)
{
    return (live_word *)(void *)field;
}

static void record_begin(live_word *record)
{
    /* relaxed: this thread alone writes it, and the words' release comes after. */
    uint64_t n = atomic_load_explicit(&record[0], memory_order_relaxed);
    atomic_store_explicit(&record[0], n + 1, memory_order_relaxed);
}

static void record_end(live_word *record)
{
    live_put(&record[1], atomic_load_explicit(&record[0], memory_order_relaxed));
}

/** All of `bytes` at once; `value` opens with the two words that are not its own. */
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

/* ---- operations --------------------------------------------------------------------------- */

static uint64_t pending_count(const struct rendezvous *rdv)
{
    return rdv->counters.submitted - rdv->counters.operations;
}

__attribute__((cold)) void live_key_put(live_word *record, const tryst_key *key)
{
    size_t bytes = key ? key->bytes : 0;
    live_put(&record[LIVE_HASH], key ? key->hash : 0);
    live_put(&record[LIVE_KEY_BYTES], bytes);
    if (bytes > TRYST_LIVE_KEY_MAX)
        bytes = TRYST_LIVE_KEY_MAX;
    for (size_t at = 0; at < bytes; at += WORD) {
        uint64_t word = 0;
        memcpy(&word, key->string + at, bytes - at < WORD ? bytes - at : WORD);
        live_put(&record[LIVE_KEY + at / WORD], word);
    }
}

/** What of it changes while it is pending. */
static void op_refresh(const tryst_op *op)
{
    live_word *record = op->live;
    uint64_t slices = op->want ? op->want->transfer.upto : op->done_upto;
    uint64_t slice_bytes = op->want  ? op->want->transfer.slice_bytes
                           : op->run ? op->run->slice_bytes
                                     : op->rdv->set.slice_bytes;
    uint64_t done_bytes = slices * slice_bytes;
    record_begin(record);
    live_what_put(record, op, op->peer->rank);
    live_put(&record[LIVE_BYTES], op->bytes); /* a receive may have learnt its shape */
    live_put(&record[LIVE_DONE], done_bytes < op->bytes ? done_bytes : op->bytes);
    record_end(record);
}

/** Refresh those that have a place, and give places that are free to others. */
static void ops_tick(struct live *live, const struct list *ops, int *left)
{
    list_for_each_safe (ops, node, after) {
        tryst_op *op = container_of(node, tryst_op, scope_node);
        if (--*left < 0)
            return;
        if (!op->reported && op->live)
            op_refresh(op);
        else if (!op->reported)
            live_op_add(live, op, op->key, op->peer->rank);
    }
}

static void scopes_tick(struct live *live, struct rendezvous *rdv)
{
    int left = TICK_OPS_MAX;
    list_for_each_safe (&rdv->scopes.all, node, after) {
        struct scope *scope = container_of(node, struct scope, node);
        ops_tick(live, &scope->warned, &left);
        ops_tick(live, &scope->ops, &left);
    }
}

/* ---- peers and the rest ------------------------------------------------------------------- */

void live_peer(struct live *live, const struct peer *peer)
{
    if (!live || (uint32_t)peer->rank >= live->peers_count)
        return;
    bool used = peer->candidates_count && peer->candidate < peer->candidates_count;
    bool unix_link = peer->link && link_is_unix(peer->link);
    struct tryst_live_peer now = {.rank = peer->rank,
                                  .life = peer->life,
                                  .link = peer->link_state,
                                  .endpoint = peer->ep_state,
                                  .pid = unix_link ? link_peer_pid(peer->link) : 0,
                                  .frames_sent = peer->frames_sent,
                                  .frames_acked = peer->frames_acked,
                                  .frames_read = peer->frames_read,
                                  .in_flight_bytes = peer->lane.in_flight_bytes,
                                  .bytes_sent = peer->bytes_sent,
                                  .bytes_received = peer->bytes_received};
    if (used)
        snprintf(now.transport, sizeof now.transport, "%s",
                 transport_kind_name(peer->candidates[peer->candidate]));
    const char *text = peer->life >= PEER_GIVING_UP ? peer->gone_text : peer->mechanism;
    memcpy(now.mechanism, text, strnlen(text, sizeof now.mechanism - 1));
    record_put(live->page + live->header->peers_offset + (size_t)peer->rank * sizeof now,
               &now, sizeof now);
}

static void counts_put(struct live *live, const struct rendezvous *rdv, uint64_t now_ns)
{
    live_put(word_of(&live->header->pending), pending_count(rdv));
    live_put(word_of(&live->header->completed), rdv->counters.operations);
    live_put(word_of(&live->header->seen_ns), now_ns);
}

void live_tick(struct live *live, struct rendezvous *rdv, uint64_t now_ns)
{
    scopes_tick(live, rdv);
    for (uint32_t i = 0; rdv->group && i < live->peers_count; i++)
        live_peer(live, &rdv->group->peers[i]);
    counts_put(live, rdv, now_ns);
}

void live_steps(struct live *live, const struct rendezvous *rdv)
{
    live_put(word_of(&live->header->steps_end), rdv->scopes.end);
    live_put(word_of(&live->header->steps_open), rdv->scopes.open);
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

/* ---- waiting ------------------------------------------------------------------------------ */

/** gettid costs a kernel call: asked once for each thread that takes turns. */
static int32_t thread_id(struct live *live)
{
    if (!live->tid || !pthread_equal(live->thread, pthread_self())) {
        live->thread = pthread_self();
        live->tid = (int32_t)syscall(SYS_gettid);
    }
    return live->tid;
}

/** Any operation that has a place; there is one. */
static tryst_op *op_victim(struct rendezvous *rdv)
{
    list_for_each_safe (&rdv->scopes.all, node, after) {
        struct scope *scope = container_of(node, struct scope, node);
        list_for_each_safe (&scope->ops, op_node, op_after) {
            tryst_op *op = container_of(op_node, tryst_op, scope_node);
            if (op->live && !op->reported)
                return op;
        }
    }
    return NULL;
}

/** An operation that somebody waits for has a place, if need be another's. */
static void op_ensure(struct rendezvous *rdv, tryst_op *op)
{
    struct live *live = rdv->live;
    tryst_op *other = op->live || live->places_count ? NULL : op_victim(rdv);
    if (op->live || op->reported)
        return;
    if (other) {
        live_op_forget(live, other);
        other->live = NULL;
    }
    live_op_add(live, op, op->key, op->peer ? op->peer->rank : -1);
}

/** 1 + the place of `op`, 0: it has none. */
static uint64_t op_place(const struct live *live, const tryst_op *op)
{
    const char *ops = live->page + live->header->ops_offset;
    return op && !op->reported && op->live
               ? 1 + (uint64_t)((const char *)op->live - ops) /
                         sizeof(struct tryst_live_op)
               : 0;
}

void rendezvous_live_wait(struct rendezvous *rdv, tryst_op *op, enum tryst_live_wait how,
                          uint64_t now_ns)
{
    struct live *live = rdv->live;
    if (!live || (live->waits == how && live->waits_for == op))
        return;
    if (op)
        op_ensure(rdv, op);
    struct tryst_live_where where = {.since_ns = now_ns,
                                     .op = op_place(live, op),
                                     .waits = how,
                                     .tid = thread_id(live)};
    live->waits = how;
    live->waits_for = op;
    record_put(&live->header->where, &where, sizeof where);
    counts_put(live, rdv, now_ns);
}

void rendezvous_live_leave(struct rendezvous *rdv)
{
    struct live *live = rdv->live;
    if (!live || live->waits == TRYST_LIVE_BUSY)
        return;
    struct tryst_live_where where = {.waits = TRYST_LIVE_BUSY, .tid = live->tid};
    live->waits = TRYST_LIVE_BUSY;
    live->waits_for = NULL;
    record_put(&live->header->where, &where, sizeof where);
}

/* ---- open and close ----------------------------------------------------------------------- */

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
    for (uint32_t i = 0; i < LIVE_OPS_MAX; i++) /* the first places are taken first */
        live->places[LIVE_OPS_MAX - 1 - i] =
            (live_word *)(void *)(live->page + header->ops_offset +
                                  i * sizeof(struct tryst_live_op));
    live->places_count = LIVE_OPS_MAX;
    snprintf(header->version, sizeof header->version, "%d.%d.%d", TRYST_VERSION_MAJOR,
             TRYST_VERSION_MINOR, TRYST_VERSION_PATCH);
    /* Last: a page without it is being made. */
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
    memfd_seal_writes(live->fd); /* who finds it can only read */
    live->page = page;
    live->header = page;
    return TRYST_OK;
}

void rendezvous_live_open(struct rendezvous *rdv, int rank, int size, const void *held)
{
    struct live *live = mem_zalloc(sizeof *live);
    tryst_status status = TRYST_E_NOMEM;
    if (live) {
        live->peers_count = (uint32_t)(size < PEERS_MAX ? size : PEERS_MAX);
        live->page_bytes = HEADER_ROOM +
                           live->peers_count * sizeof(struct tryst_live_peer) +
                           LIVE_OPS_MAX * sizeof(struct tryst_live_op);
        status = page_map(live, rank);
    }
    if (status != TRYST_OK) {
        LOG_INFO(rdv->log, "no live page (tryst-info --live): %s",
                 tryst_status_str(status));
        mem_free(live);
        return;
    }
    header_put(live, rank, size, held, clock_now_ns(rdv->clock));
    rdv->live = live;
}

void rendezvous_live_closing(struct rendezvous *rdv)
{
    if (rdv->live)
        live_phase(rdv->live, TRYST_LIVE_CLOSING);
}

void rendezvous_live_close(struct rendezvous *rdv)
{
    struct live *live = rdv->live;
    if (!live)
        return;
    rdv->live = NULL;
    close(live->fd);
    munmap(live->page, live->page_bytes);
    mem_free(live);
}

void live_forked(struct live *live)
{
    close(live->fd);
}
