/* SPDX-License-Identifier: Apache-2.0 */
/** @file engine.h
 *  The state of one engine, which operations, peers and the protocol share. What commsched sees is
 *  rendezvous.h.
 */
#ifndef RENDEZVOUS_OP_ENGINE_H
#define RENDEZVOUS_OP_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "core/config/config.h"
#include "core/log/log.h"
#include "core/log/trace.h"
#include "core/memory/list.h"
#include "core/memory/mpsc.h"
#include "core/memory/pool.h"
#include "core/os/clock.h"
#include "core/os/poller.h"
#include "core/text/err.h"
#include "rendezvous/live/page.h"
#include "rendezvous/match/scopes.h"
#include "rendezvous/op/above.h"
#include "rendezvous/op/op.h"
#include "rendezvous/op/transfer.h"
#include "transports/link/link_listen.h"
#include "transports/module.h"
#include "transports/reach.h"
#include "transports/select.h"
#include "transports/stage.h"
#include "transports/transport.h"

struct memory_cache;
struct peer_events;
struct tryst_group;
struct tryst_host;

/** Aborts of steps that are closed here, kept for links that come up later: those of the newest
 *  steps, one each (abort.c). */
enum { ABORT_NOTES = 8 };
struct abort_note {
    uint64_t step;
    uint64_t time_ns; /**< wall clock of the origin */
    int32_t status;
    int32_t rank; /**< the origin */
    char text[256];
};

/** Words in pinned memory that streams wait for (stream_wait.c). */
struct gates {
    pthread_mutex_t lock; /**< guards all; not held while a device is waited for */
    struct list free;     /**< struct gate, the one that was set longest ago first */
    struct list pages;
};

/** Housekeeping period: heartbeats, stalls, connect deadlines. */
#define TICK_NS (500 * NS_PER_MS)

/** Interfaces that one kind of transport uses. */
enum { PLACES_MAX = 8 };

static_assert(TRANSPORT_KINDS * PLACES_MAX + 1 <= DISPATCH_RAILS_MAX, "a window each");

/** DATA that came before its receive has memory of 64 << class bytes, or less, for its payload. */
enum { UNEXPECTED_CLASSES = 8 };

/** Settings, read once. */
struct rendezvous_settings {
    uint64_t eager_max_bytes, eager_credit_bytes;
    uint64_t slice_bytes; /**< 0: as its sender finds fit for the path */
    uint64_t peer_timeout_ns, connect_timeout_ns, stall_warn_ns;
    uint32_t posted_slices, wants_max, parked_max, early_max, frame_credits;
    uint64_t urgency_mask; /**< 0: first come, first served */
};

struct rendezvous_counters {
    uint64_t frames_sent, frames_received, frames_again;
    uint64_t records_sent, records_received;
    uint64_t data_eager, data_inline, wants_parked, wants_deferred, offers;
    uint64_t bulk_bytes_sent, bulk_bytes_received, slices_started;
    uint64_t submitted, operations, operations_failed, peers_given_up;
    uint64_t unexpected_bulk, wrong_cookies, protocol_errors, links_refused;
};

struct rendezvous {
    void *owner;
    tryst_status (*rails_open)(void *owner, int kind, char *text);
    bool (*enter)(void *owner);
    void (*leave)(void *owner);
    bool (*ack_timer_call)(void *owner);
    tryst_status (*device_start)(void *owner, tryst_memory_kind kind, int32_t device);
    const struct config *config;
    const struct log *log;
    const struct clock *clock;
    struct poller *poller;
    struct trace *trace;
    const struct dispatch_ops *dispatch;
    void *dispatch_arg;
    struct above above; /**< the engine of collectives; all zero: none */
    const struct op_events *op_events;
    const struct peer_events *peer_events;
    struct rendezvous_settings set;

    struct mpsc submissions;
    _Atomic(uint32_t) sleeping; /**< the progressing thread sleeps, or is about to */
    _Atomic(bool) closing;
    /** Count of operations with a stored outcome. Released after those stores, acquired by tryst_wait_any. */
    _Atomic(uint64_t) completions;
    _Atomic(size_t) orphans; /**< after the close: operations that users still hold */
    uint64_t fork_generation;

    struct live *live; /**< NULL: no group, or no page */
    struct pool *ops, *wants, *slices, *devices, *steps;
    struct pool *unexpected[UNEXPECTED_CLASSES]; /**< by payload (eager.h) */
    struct pool *recv_runs, *recv_slices;
    struct hash_table ids; /**< receives that were announced, by id */
    uint64_t id_next, id_mask;
    struct scopes scopes; /**< the steps */
    struct list completed;
    struct list flush;
    struct list
        idle_peers; /**< peer->idle_node: something of theirs waits for an idle pass */
    bool ack_timer_runs;     /**< acknowledgements may stay behind a thread that leaves */
    uint32_t ack_timer_idle; /**< turns of it in which none had */
    struct list unannounced_peers; /**< peer->unannounced_node */
    struct {
        tryst_op **items;
        size_t count, capacity;
    } deadlines;

    struct {
        struct rail *rail;
        uint32_t kind;    /**< enum transport_kind */
        uint32_t place;   /**< of its interface among those of this kind, as announced */
        uint32_t senders; /**< peers with posted slices here that they have ready */
    } rails[TRANSPORT_KINDS * PLACES_MAX + 1]; /**< as they were opened; and the stage */
    uint32_t rails_count;
    uint32_t places[TRANSPORT_KINDS]; /**< interfaces of a kind, with or without a rail */
    struct link_listener *listener;
    struct reach_scopes scopes_here; /**< of the listener's addresses */
    const tryst_host *host;          /**< loads kinds of memory; NULL: none */
    struct memory_cache *memory;     /**< registered regions; NULL: none */
    struct stage stage;              /**< bulk of device memory */
    struct gates gates;              /**< streams that wait for operations */
    bool stage_listed;               /**< it is in `rails` */
    bool copies_busy;                /**< arming: a rail waits for a device */
    struct list device_loads;        /**< op_device.loads_node: they wait for a driver */
    struct list hello_links;         /**< accepted links that have not sent HELLO */
    struct tryst_group *group;
    uint64_t cookie; /**< first half of the session cookie: opens every frame */

    struct abort_note aborts[ABORT_NOTES];
    uint32_t aborts_count;

    uint64_t ids_clear_end; /**< ids in [id_next, ids_clear_end) are no live run's */
    int64_t clock_skew_ns;  /**< for tests: what this rank's clock is ahead */
    uint64_t clock_id;
    int32_t root_rank;               /**< from whom rank 0's time was taken, -1 */
    _Atomic(int64_t) root_ns;        /**< rank 0's clock minus ours */
    _Atomic(uint64_t) root_error_ns; /**< UINT64_MAX: not known */

    bool stirred; /**< a submission has run since the last pass */
    bool
        start_failed; /**< since the last pass the transport, or the pool, had no room for a slice to send */
    uint32_t passes;
    uint64_t moving;     /**< slices that are posted, or started and not acknowledged */
    uint64_t moved_ns;   /**< when the last pass began with some of them, 0: not known */
    uint32_t pauses;     /**< so often the next pass came PAUSE_NS later */
    bool awaiting_cause; /**< some receive may await the reason of an abort */
    bool leaving;        /**< the group is being closed */
    bool join_again;     /**< our parent in the control tree found no memory */
    bool
        leave_sent; /**< and LEAVE was sent to the others; who links up later gets it then */
    bool cut;       /**< and all peers are given up: ranks that connect now become none */
    bool reap;      /**< rendezvous_reap has something to do */
    uint64_t tick_ns;     /**< when housekeeping runs next */
    uint64_t looked_ns;   /**< when timers_run was here last */
    uint64_t stamp_ns;    /**< the coarse clock, as read for the last submissions */
    uint32_t stamps_left; /**< and so many more before the next pass */
    uint64_t pass_ns; /**< the clock, as this pass or event first read it; 0 not yet */
    struct log_limit links_limit, cookies_limit, devices_limit;
    struct rendezvous_counters counters;
};

/** How large slices over `rail` are where the user allows `most` bytes. */
static inline uint64_t rail_slice_bytes(const struct rail *rail, uint64_t most)
{
    return rail->slice_bytes && rail->slice_bytes < most ? rail->slice_bytes : most;
}

/** A slice is posted, or starts. */
static inline void rendezvous_moves(struct rendezvous *rdv)
{
    if (rdv->moving++ == 0)
        rdv->moved_ns = 0;
}

/** n consecutive ids that no live run uses. */
uint64_t engine_ids(struct rendezvous *rdv, uint64_t n);
/** No operation is left. */
void engine_free(struct rendezvous *rdv);
/** One of the operations that outlived the context was released. Any thread. */
void engine_orphan_gone(struct rendezvous *rdv);

/** Fail `op`, whatever its kind. Both ends end with this cause, unless `op` is failing already or it is too
 *  late. */
static inline void op_fail_from(tryst_op *op, struct cause cause, const char *text)
{
    op->rdv->op_events->fail(op, cause, text);
}

/** Fail `op` for a cause of this rank: a deadline, a cancel, a close. */
static inline void op_fail(tryst_op *op, tryst_status status, const char *text)
{
    op_fail_from(op, (struct cause){status, -1, status}, text);
}

/** The scope is closing, and may have come to an end: looked at when the pass ends. */
static inline void rendezvous_reap_later(struct rendezvous *rdv, struct scope *scope)
{
    scope_reap_later(scope);
    rdv->reap = true;
}
/** Let the engine of collectives work: how much it did. */
static inline int above_run(struct rendezvous *rdv)
{
    const struct above *above = &rdv->above;
    if (__builtin_expect(above->is_due && !*above->is_due, 1))
        return 0;
    return above->run ? above->run(above->arg) : 0;
}
static inline uint64_t rendezvous_now(struct rendezvous *rdv)
{
    if (!rdv->pass_ns)
        rdv->pass_ns = clock_now_ns(rdv->clock);
    return rdv->pass_ns;
}

#endif
