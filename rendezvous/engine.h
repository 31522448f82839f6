/* SPDX-License-Identifier: Apache-2.0 */
/** @file engine.h
 *  The engine's state, shared by the files of this layer. What others see is rendezvous.h.
 */
#ifndef RENDEZVOUS_ENGINE_H
#define RENDEZVOUS_ENGINE_H

#include <stdatomic.h>
#include <stdint.h>

#include "core/clock.h"
#include "core/config.h"
#include "core/err.h"
#include "core/list.h"
#include "core/log.h"
#include "core/mpsc.h"
#include "core/poller.h"
#include "core/pool.h"
#include "core/trace.h"
#include "rendezvous/group.h"
#include "rendezvous/live/page.h"
#include "rendezvous/match/scopes.h"
#include "rendezvous/numbers/idmap.h"
#include "rendezvous/op.h"
#include "rendezvous/rendezvous.h"
#include "rendezvous/transfer.h"
#include "stream_wait.h"
#include "transports/link/link_listen.h"
#include "transports/module.h"
#include "transports/select.h"
#include "transports/stage.h"
#include "transports/transport.h"
#include "wire.h"

/** Bytes of eager credit that one DATA costs beyond its payload: bounds the number of them. */
#define EAGER_OVERHEAD_BYTES 192u
/** Largest inline tensor that always fits a frame beside the longest key. */
#define EAGER_BYTES_LIMIT 4096u
static_assert(FRAME_BYTES_MAX <= TRANSPORT_FRAME_BYTES, "every transport takes it");

/** Aborted steps, not open here yet, that one peer may tell us of. Each costs a struct scope and its
 *  first buckets. */
enum { EARLY_ABORTS_MAX = 1 << 16 };

/** Aborts of steps that are closed here, kept for links that come up later: those of the newest
 *  steps, one each (abort.c). */
enum { ABORT_NOTES = 8 };
struct abort_note {
    struct link_abort head;
    char text[256];
};

/** Housekeeping period: heartbeats, stalls, connect deadlines. */
#define TICK_NS (500 * NS_PER_MS)

/** Interfaces that one kind of transport uses. */
enum { PLACES_MAX = 8 };

static_assert(TRANSPORT_KINDS * PLACES_MAX + 1 <= DISPATCH_RAILS_MAX, "a window each");

/** Settings, read once. */
struct rendezvous_settings {
    uint64_t eager_max_bytes, eager_credit_bytes;
    uint64_t slice_bytes;
    uint64_t peer_timeout_ns, connect_timeout_ns, stall_warn_ns;
    uint32_t posted_slices, wants_max, parked_max, early_max, frame_credits;
};

struct rendezvous_counters {
    uint64_t frames_sent, frames_received, frames_again;
    uint64_t records_sent, records_received;
    uint64_t data_eager, data_inline, wants_parked, wants_deferred, offers;
    uint64_t bulk_bytes_sent, bulk_bytes_received, slices_started;
    uint64_t submitted, operations, operations_failed, peers_given_up;
    uint64_t unexpected_bulk, wrong_cookies, protocol_errors, links_refused;
};

/** Strangers are logged once in this time, with how many there were. */
#define STRANGERS_LOG_NS (10 * NS_PER_S)
/** Likewise why device memory cannot be used. */
#define DEVICES_LOG_NS (10 * NS_PER_S)

struct rendezvous {
    void *owner;
    tryst_status (*rails_open)(void *owner, int kind, char *text);
    bool (*enter)(void *owner);
    void (*leave)(void *owner);
    bool (*ack_timer_call)(void *owner);
    const struct config *config;
    const struct log *log;
    const struct clock *clock;
    struct poller *poller;
    struct trace *trace;
    const struct dispatch_ops *dispatch;
    void *dispatch_arg;
    struct rendezvous_settings set;

    struct mpsc submissions;
    _Atomic(uint32_t) sleeping; /**< the progressing thread sleeps, or is about to */
    _Atomic(bool) closing;
    _Atomic(size_t) orphans; /**< after the close: operations that users still hold */
    uint64_t fork_generation;

    struct live *live; /**< NULL: no group, or no page */
    struct pool *ops, *wants, *devices;
    struct idmap ids; /**< our ids → tryst_op */
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
        uint32_t kind;  /**< enum transport_kind */
        uint32_t place; /**< of its interface among those of this kind, as announced */
    } rails[TRANSPORT_KINDS * PLACES_MAX + 1]; /**< as they were opened; and the stage */
    uint32_t rails_count;
    uint32_t places[TRANSPORT_KINDS]; /**< interfaces of a kind, with or without a rail */
    struct link_listener *listener;
    const tryst_host *host;      /**< loads kinds of memory; NULL: none */
    struct memory_cache *memory; /**< registered regions; NULL: none */
    struct stage stage;          /**< bulk of device memory */
    struct gates gates;          /**< streams that wait for operations */
    bool stage_listed;           /**< it is in `rails` */
    bool copies_busy;            /**< arming: a rail waits for a device */
    struct list hello_links;     /**< accepted links that have not said who they are */
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

    bool stirred;      /**< a submission has run since the last pass */
    bool start_failed; /**< the last slice that was to start did not */
    uint32_t passes;
    bool awaiting_cause; /**< some receive may await the reason of an abort */
    bool leaving;        /**< the group is being closed */
    bool told;        /**< and the others have been told; who links up now is told then */
    bool reap;        /**< rendezvous_reap has something to do */
    uint64_t tick_ns; /**< when housekeeping runs next */
    uint64_t looked_ns; /**< when timers_run was here last */
    uint64_t pass_ns;   /**< the clock, as this pass or event first read it; 0 not yet */
    struct log_limit links_limit, cookies_limit, devices_limit;
    struct rendezvous_counters counters;
};

/** Run a submission, here if the progress role is free, else hand it over. Any thread. */
void rendezvous_submit(struct rendezvous *rdv, struct submission *submission);
/** The same for one that calls the user back: it runs in a pass. */
void rendezvous_queue(struct rendezvous *rdv, struct submission *submission);
/** Run what was handed over; how many. Part of a pass. */
int submissions_run(struct rendezvous *rdv);
/** Close endpoints, finish peers, free scopes: nobody else is walking them now. */
void rendezvous_reap(struct rendezvous *rdv);

/** The group is open: whose clock is whose. */
void rendezvous_clock_open(struct rendezvous *rdv);
/** A name for the clock that this process reads, the same on all that read it; 0: not known. */
uint64_t rendezvous_clock_id(int64_t skew_ns);
/** One of the operations that outlived the context was released. */
void rendezvous_orphan_gone(struct rendezvous *rdv);
/** n consecutive ids that no live run uses. */
uint64_t rendezvous_ids(struct rendezvous *rdv, uint64_t n);
/** Fail `op` (cancel, deadline, abort) whatever its kind. */
void op_fail(tryst_op *op, tryst_status status, int32_t origin_rank, const char *text);
/** Mark a scope aborted and fail what is in it. Earliest (time, rank) wins. Returns true when
 *  this cause is news. */
bool scope_abort(struct scope *scope, tryst_status status, int32_t rank, uint64_t time_ns,
                 const char *text);
/** What a record of a step is refused with, and by whom: TRYST_E_ABORTED, also when the abort was
 *  followed by the close (as far back as ABORT_NOTES remember), else TRYST_E_CLOSED. TRYST_OK: the
 *  step takes it, or is not open here yet. `scope`: scope_find's answer. */
tryst_status step_refuses(const struct rendezvous *rdv, const struct scope *scope,
                          uint64_t step, int32_t *origin_rank_p);
/** Abort a step by id, also one that is not open here yet, and tell all peers but `from`. */
void rendezvous_abort(struct rendezvous *rdv, uint64_t step, tryst_status status,
                      int32_t rank, uint64_t time_ns, const char *text,
                      struct peer *from);
/** The scope is closing, and may have come to an end: looked at when the pass ends. */
static inline void rendezvous_reap_later(struct rendezvous *rdv, struct scope *scope)
{
    scope_reap_later(scope);
    rdv->reap = true;
}
static inline uint64_t rendezvous_now(struct rendezvous *rdv)
{
    if (!rdv->pass_ns)
        rdv->pass_ns = clock_now_ns(rdv->clock);
    return rdv->pass_ns;
}

#endif
