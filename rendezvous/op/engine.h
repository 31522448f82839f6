/* SPDX-License-Identifier: Apache-2.0 */
/** @file engine.h
 *  The state of one engine, shared by operations, peers and the protocol. context/
 *  includes rendezvous.h instead.
 */
#ifndef TRYST_RENDEZVOUS_OP_ENGINE_H
#define TRYST_RENDEZVOUS_OP_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "commsched/sched/transfer.h"
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
#include "rendezvous/op/coll_calls.h"
#include "rendezvous/op/leave.h"
#include "rendezvous/op/op.h"
#include "transports/bounce.h"
#include "transports/link/link_listen.h"
#include "transports/memory/closed_gates.h"
#include "transports/module.h"
#include "transports/reach.h"
#include "transports/select.h"
#include "transports/transport.h"

struct memory_cache;
struct peer_events;
struct progress;
struct recorder;
struct tryst_group;
struct tryst_host;

/** Aborts of closed steps, kept for links that come up later: one for each of the newest
 *  steps (abort.c). */
enum { ABORT_NOTES = 8 };
struct abort_note {
    uint64_t step;
    uint64_t number;  /**< number of the cause, as scope->abort_number */
    uint64_t time_ns; /**< wall clock of the origin */
    int32_t status;
    int32_t rank; /**< the rank where the abort began */
    int32_t from; /**< the peer that reported it; -1: this rank */
    /** The abort came after the close: the neighbours in the control tree get it. */
    bool late;
    char text[ABORT_TEXT_BYTES];
};

/** Words in pinned memory on which streams wait (stream_wait.c). */
struct gates {
    /** Guards `free` and `pages`; released during waits for a device. */
    pthread_mutex_t lock;
    struct list free; /**< struct gate, the one that was set longest ago first */
    struct list pages;
    struct closed_gates closed;
    /** Bit d % 64: the streams for transfers of device d are open (op_device_prepare). */
    _Atomic(uint64_t) prepared;
};

/** The period of heartbeats, stall checks and connect deadlines. */
#define TICK_NS (500 * NS_PER_MS)

/** The most rails, that of bounce buffers included. */
enum { RAILS_MAX = MEMORY_RAILS_MAX + 1 };

static_assert((int)RAILS_MAX <= (int)SCHED_RAILS_MAX, "a window each");

/** Unexpected DATA has a payload buffer of 64 << class bytes, in the smallest class that
 *  fits. */
enum { UNEXPECTED_CLASSES = 8 };

/** Settings, read once at the start. */
struct rendezvous_settings {
    uint64_t eager_max_bytes, eager_credit_bytes;
    uint64_t slice_bytes; /**< slice size of receives; 0: as the sender requests */
    uint64_t peer_timeout_ns, connect_timeout_ns, stall_warn_ns;
    uint32_t posted_slices, wants_max, parked_max, early_max, frame_credits;
    /** Applied to sort key and step of each urgency; 0: first come, first served. */
    uint64_t urgency_mask;
};

struct rendezvous_counters {
    uint64_t frames_sent, frames_received, frames_again;
    uint64_t records_sent, records_received;
    uint64_t data_eager, data_inline, wants_parked, wants_deferred, offers;
    uint64_t bulk_bytes_sent, bulk_bytes_received, slices_started;
    uint64_t submitted, operations, operations_failed, peers_given_up;
    uint64_t unexpected_bulk, protocol_errors, links_refused;
    uint64_t mechs_dropped; /**< see rail_events.mech_dropped */
    uint64_t closed_walked; /**< sends visited for CLOSED records; for tests */
};

struct rendezvous {
    tryst_ctx *ctx; /**< passed to the two functions, not used */
    tryst_status (*rail_open)(tryst_ctx *ctx, int kind, uint32_t nic, char *text);
    tryst_status (*device_start)(tryst_ctx *ctx, tryst_memory_kind kind, int32_t device);
    const struct config *config;
    const struct log *log;
    const struct clock *clock;
    struct poller *poller;
    struct trace *trace;
    struct recorder *recorder;
    struct sched *sched;
    struct progress *progress;    /**< NULL: the owner makes the passes (tests) */
    struct coll_calls coll_calls; /**< the engine of collectives; all zero: none */
    const struct op_events *op_events;
    const struct peer_events *peer_events;
    struct rendezvous_settings set;

    struct mpsc submissions;
    _Atomic(uint32_t) sleeping; /**< 1: the progressing thread sleeps, or is about to */
    _Atomic(bool) closing;
    /** The number of operations with a stored outcome. Released after those stores,
     *  acquired by tryst_wait_any. */
    _Atomic(uint64_t) completions;
    _Atomic(size_t) orphans; /**< after the close: operations that users still hold */
    uint64_t fork_generation;

    struct live *live; /**< NULL: no group, or no page */
    struct pool *ops, *wants, *slices, *devices, *steps;
    struct pool *unexpected[UNEXPECTED_CLASSES]; /**< by payload class (eager.h) */
    struct pool *recv_runs, *recv_slices;
    struct {
        struct hash_table table; /**< announced receives, by id */
        uint64_t next, mask;
        uint64_t clear_end; /**< ids in [next, clear_end) belong to no live run */
    } ids;
    struct scopes scopes; /**< the steps of the group */
    struct list completed;
    struct list flush;
    /** channel->out.idle_node: peers with records or headers for the next idle pass. */
    struct list idle_peers;
    struct {
        /** True: acknowledgements may wait when a thread leaves the engine. */
        bool timer_runs;
        /** Consecutive calls of the timer that found no acknowledgement waiting. */
        uint32_t timer_idle;
    } acks;
    /** channel->in.unannounced_node: peers with small receives that are not announced. */
    struct list unannounced_peers;
    struct {
        tryst_op **items;
        size_t count, capacity;
    } deadlines;

    /** The rails in the order of their opening, and that of bounce buffers. */
    struct {
        struct rail *rail;
        uint32_t kind; /**< enum transport_kind */
        uint32_t nic;  /**< numbered as announced; 0: no network */
        /** Number of peers on this rail with posted slices that are ready to be sent. */
        uint32_t senders;
    } rails[RAILS_MAX];
    uint32_t rails_count;
    struct link_listener *listener;
    struct reach_scopes scopes_here; /**< the scopes of the listener's addresses */
    const struct tryst_host *host;   /**< loads kinds of memory; NULL: none */
    struct memory_cache *memory;     /**< registered regions; NULL: none */
    struct bounce bounce;            /**< bulk of device memory */
    struct gates gates;              /**< words for streams that wait for operations */
    bool bounce_listed;              /**< `bounce` is in `rails` */
    bool copies_busy;                /**< a rail waits for a device; set by arming */
    /** op_device.loads_node: operations that wait for a driver. */
    struct list device_loads;
    struct list hello_links; /**< accepted links that have not sent HELLO */
    struct tryst_group *group;
    uint64_t cookie; /**< first half of the session cookie, for endpoints */

    struct {
        struct abort_note notes[ABORT_NOTES];
        uint32_t count;
    } aborts;

    /** Rank 0's clock, for times that ranks compare (peer/clock_offset.c). */
    struct {
        uint64_t id;
        int32_t rank;               /**< the peer that `ns` was computed from; -1: none */
        _Atomic(int64_t) ns;        /**< rank 0's clock minus this rank's */
        _Atomic(uint64_t) error_ns; /**< error bound of `ns`; UINT64_MAX: unknown */
    } root_clock;

    bool ran_inline; /**< a submission has run since the last pass */
    /** Since the last pass the transport, or the pool, had no room for a slice to
     *  send. */
    bool start_failed;
    struct {
        uint64_t moving; /**< slices that are posted, or started and not acknowledged */
        uint64_t copied_bytes; /**< by the rails in this pass (rail.copied_bytes) */
        uint64_t seen_ns; /**< the start of the last pass with `moving` > 0; 0: unknown */
        uint32_t pauses;  /**< passes that came PAUSE_NS or more after the one before */
    } bulk;
    struct {
        enum leave_state state;
        /** When LEAVE_BEGUN or LEAVE_SENT ends at the latest; else 0. */
        uint64_t until_ns;
    } leave;
    /** There was no memory for the parent in the control tree: each tick joins again. */
    bool join_again;
    bool reap;       /**< pass_reap has work */
    bool aborts_due; /**< pass_reap has aborts of peers to forward */
    /** The search for lost packets (peer/loss.h). */
    struct {
        uint64_t tick_ns; /**< times.tick_ns at the last search */
        uint32_t searches;
    } loss;
    struct {
        uint64_t tick_ns;   /**< the time of the next housekeeping */
        uint64_t timers_ns; /**< when timers last ran */
        uint64_t stamp_ns;  /**< the coarse clock, as read for the last submissions */
        /** Submissions that may use stamp_ns before it is read again. */
        uint32_t stamps_left;
        uint32_t passes;
        /** The clock as this pass or event first read it; 0: not read yet. */
        uint64_t pass_ns;
    } times;
    struct {
        struct log_limit links, devices, aborts;
    } limits;
    struct rendezvous_counters counters;
};

/** Return the slice size for `rail`: `most`, or the rail's own size if that is less. */
static inline uint64_t rail_slice_bytes(const struct rail *rail, uint64_t most)
{
    return rail->slice_bytes && rail->slice_bytes < most ? rail->slice_bytes : most;
}

/** Count a slice that was posted or has started. */
static inline void rendezvous_moves(struct rendezvous *rdv)
{
    if (rdv->bulk.moving++ == 0)
        rdv->bulk.seen_ns = 0;
}

/** Return the first of n consecutive ids that no live run uses. */
uint64_t engine_ids(struct rendezvous *rdv, uint64_t n);
/** Free the engine's memory: no operation is left. */
void engine_free(struct rendezvous *rdv);
/** Note the end of an operation that outlived the context; the last one frees the
 *  engine. Any thread. */
void engine_orphan_gone(struct rendezvous *rdv);

/** Fail `op`, whatever its kind. Both ends end with this cause, unless `op` is failing
 *  already or the failure comes too late. */
static inline void op_fail_from(tryst_op *op, struct cause cause, const char *text)
{
    op->rdv->op_events->fail(op, cause, text);
}

/** Fail `op` for a cause of this rank: a deadline, a cancel, a close. */
static inline void op_fail(tryst_op *op, tryst_status status, const char *text)
{
    op_fail_from(op, (struct cause){status, -1, status}, text);
}

/** Put the operation into its step, at this time of submission. */
static inline void op_scope_enter(tryst_op *op, struct scope *scope,
                                  uint64_t submitted_ns)
{
    op->scope = scope;
    op->submitted_ns = submitted_ns;
    list_push_back(&scope->ops, &op->scope_node);
}
/** Have pass_reap run at the end of the pass. */
static inline void engine_reap_soon(struct rendezvous *rdv)
{
    rdv->reap = true;
}
/** Have the housekeeping run at `at_ns`, or sooner (0: in the next pass). */
static inline void engine_tick_at(struct rendezvous *rdv, uint64_t at_ns)
{
    if (at_ns < rdv->times.tick_ns)
        rdv->times.tick_ns = at_ns;
}
/** Check at the end of the pass whether the closing scope can end. */
static inline void rendezvous_reap_later(struct rendezvous *rdv, struct scope *scope)
{
    scope_reap_later(scope);
    engine_reap_soon(rdv);
}
/** Run the engine of collectives; returns the number of runs that advanced. */
static inline int coll_calls_run(struct rendezvous *rdv)
{
    const struct coll_calls *calls = &rdv->coll_calls;
    if (__builtin_expect(calls->is_due && !*calls->is_due, 1))
        return 0;
    return calls->run ? calls->run(calls->arg, rdv->bulk.copied_bytes) : 0;
}
static inline uint64_t rendezvous_now(struct rendezvous *rdv)
{
    if (!rdv->times.pass_ns)
        rdv->times.pass_ns = clock_now_ns(rdv->clock);
    return rdv->times.pass_ns;
}

#endif
