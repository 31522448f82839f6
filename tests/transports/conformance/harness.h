/* SPDX-License-Identifier: Apache-2.0 */
/* Plays the layer above a transport, as transport.h describes it, for two or more
 * contexts.
 *
 * One idea: a test is one function that every rank runs, in a process or as a thread of
 * one child process. What the ranks exchange beside the transport (addresses, receives
 * posted, errors) is in a shared mapping, so the transport is never its own evidence.
 * Invariant: every wait ends; a rank that fails, crashes or hangs ends the test with a
 * report of what each rank was waiting for. Events may only come from inside progress or
 * a poller function; each callback checks this. */
#ifndef TRYST_TESTS_TRANSPORTS_CONFORMANCE_HARNESS_H
#define TRYST_TESTS_TRANSPORTS_CONFORMANCE_HARNESS_H

#include <setjmp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/config/config.h"
#include "core/log/log.h"
#include "core/os/clock.h"
#include "core/os/random.h"
#include "place.h"
#include "support/patience.h"
#include "transports/bounce.h"
#include "transports/device.h"
#include "transports/link/link_listen.h"
#include "transports/memory/memory.h"
#include "transports/module_load.h"
#include "transports/transport.h"

enum {
    CONF_RANKS_MAX = 65,
    CONF_WORDS = 64,
    CONF_CREDITS = 64 /**< frames that the layer above may leave unread */
};

enum conf_ends { CONF_SENDS = 1, CONF_RECEIVES = 2 };

/** The transport under test, from the command line: one ctest each. */
struct conf_subject {
    const char *name;        /**< in messages, for example "shm_cma" */
    const char *transport;   /**< "shm" */
    const char *settings[8]; /**< "shm_mech=cma", ended by NULL */
    /** Connects ranks of one process only: no rank can be killed. */
    bool threads_only;
    bool regions; /**< bulk buffers are registered regions */
    /** The ends with buffers in device memory: enum conf_ends. */
    unsigned on_device;
    bool run_long;
    long leaks_kib;       /**< known leak of the fabric's library per life (closing.c) */
    const char *sabotage; /**< a fault of sabotage.c, or NULL */
};

struct conf_ctx;

struct conf_peer {
    struct conf_ctx *ctx;
    int rank;
    struct link *link; /**< NULL for loopback */
    int pidfd;
    struct endpoint *ep;
    struct conf_early *early, **early_end; /**< connect messages before ep_open */
    bool ready_called, ready, failed, closed, closing;
    bool greeted;     /**< HELLO of the peer has come, where this rank connected */
    bool left;        /**< the peer reported that it closes its endpoint */
    bool link_closed; /**< the link is closed */
    bool may_fail;    /**< the peer may die or be attacked: events->failed is allowed */
    tryst_status ready_status, failed_status;
    char text[TRANSPORT_TEXT_MAX];
    uint64_t frames_sent, frames_read;
    uint64_t unexpected_count, unexpected_tag, unexpected_bytes;
    int bulk_live; /**< posted or being sent, not yet done */
    struct bounce_lane lane;
    void (*on_frame)(struct conf_peer *peer, const void *data, size_t bytes);
    void *arg;
};

struct conf_ctx {
    int rank, size;
    bool threads;
    const struct conf_subject *subject;
    struct conf_shared *shared;
    struct log log;
    struct config *config;
    struct tryst_host host;
    struct poller poller;
    const struct transport_ops *ops;
    struct rail *rail;
    struct link_listener *listener;
    struct memory_cache *regions;
    struct place_devices devices;
    struct bounce bounce; /**< above the rail, as in the library: carries device memory */
    struct conf_peer peers[CONF_RANKS_MAX];
    struct random random;
    /** Nested calls into the transport in which no event may fire. */
    int inside;
    uint64_t barriers;   /**< barriers passed so far */
    int opens;           /**< conf_open calls so far; equal on all ranks */
    bool mutate;         /**< an attacker: damage the connect messages in transit */
    uint64_t idle_count; /**< steps in a row without an event */
    uint64_t again_count;
    jmp_buf escape;
};

/** One rank's part of the shared mapping. */
struct conf_rank {
    struct link_address address;
    uint64_t nonce;
    /** Number of conf_open calls with a published address and nonce. */
    _Atomic int published;
    _Atomic int
        passed; /**< the test function returned, or was ended by another rank's failure */
    _Atomic int mortal; /**< the rank may be killed */
    _Atomic uint64_t
        frames_read[CONF_RANKS_MAX]; /**< from each rank: credit without frames */
    char where[160];
    char failure[512];
};

struct conf_shared {
    /** All accesses are seq_cst: this is test signalling, and speed does not matter. */
    _Atomic int failed;
    _Atomic uint64_t arrived; /**< arrivals at barriers, of all ranks */
    _Atomic uint64_t words[CONF_WORDS];
    int pids[CONF_RANKS_MAX];
    struct conf_rank ranks[CONF_RANKS_MAX];
};

typedef void (*conf_body)(struct conf_ctx *ctx);

enum conf_mode { CONF_PROCESSES, CONF_THREADS };

/** Run `body` in `ranks` ranks. Fail the cmocka test if a rank fails, leaks memory or
 *  descriptors, or has not finished after `limit_s`. */
void conf_run(const struct conf_subject *subject, enum conf_mode mode, int ranks,
              unsigned limit_s, conf_body body);

/** Do the same without cmocka: return true if all ranks passed, else write the reason to
 *  `text`. */
enum { CONF_TEXT_MAX = 800 };
bool conf_try(const struct conf_subject *subject, enum conf_mode mode, int ranks,
              unsigned limit_s, conf_body body, char *text);

/** Return the transport's table; NULL, with the reason logged, where the transport is not
 *  available. */
const struct transport_ops *conf_ops(const struct conf_subject *subject, char *text);

/** True if a device can be used; else print the reason. */
bool conf_device_there(const struct conf_subject *subject);

/** The repetition of the case; part of every rank's seed. */
extern uint64_t conf_round;

/** Seconds that an expected event may take, and seconds that a sleeper may sleep; both
 *  are multiplied by conf_patience. 20 and 5, except in test_sabotage.c. */
extern _Atomic unsigned conf_wait_s, conf_wake_s;

/** Factor on time limits: more in slower builds (sanitizers), 1 in plain builds. */
extern const unsigned conf_patience;

/* ---- for bodies ---- */

/** Repetitions: `fewer` where each takes long (sanitizers, driver calls for each
 *  buffer). */
static inline uint64_t conf_times(const struct conf_ctx *ctx, uint64_t times,
                                  uint64_t fewer)
{
    return conf_patience > 1 || ctx->subject->on_device ? fewer : times;
}

/** Open a rail and a listener for links, and publish their addresses to the other
 *  ranks. */
void conf_open(struct conf_ctx *ctx);
/** Open a link and an endpoint to `rank`, which does the same; return when the endpoint
 *  is ready. */
struct conf_peer *conf_connect(struct conf_ctx *ctx, int rank);
/** Open the parts: the link alone; then the endpoint, without waiting. */
struct conf_peer *conf_link(struct conf_ctx *ctx, int rank);
void conf_ep_open(struct conf_peer *peer);
/** Call ep_close without waiting. conf_closed waits for `closed`, and at most 2 s for the
 *  endpoint's copies. */
void conf_ep_close(struct conf_peer *peer);
void conf_closed(struct conf_peer *peer);
bool conf_gone(const struct conf_peer *peer);
/** Close all endpoints, links and the rail once all ranks have called this. The second
 *  form does not wait for the others: peers may be dead. */
void conf_close(struct conf_ctx *ctx);
void conf_close_alone(struct conf_ctx *ctx);
/** True if the peer's process has ended: its link is closed, or its pidfd is readable. */
bool conf_dead(const struct conf_peer *peer);
/** Begin a test of two ranks: open, and connect to the other rank. */
struct conf_peer *conf_pair(struct conf_ctx *ctx);

/** Sleep as a host does (arm, then the poller) until `condition`; fail when no event
 *  wakes the rank within 5 s. */
#define CONF_SLEEP(ctx, condition)                         \
    do {                                                   \
        conf_where((ctx), __FILE__, __LINE__, #condition); \
        while (!(condition))                               \
            conf_sleep_once(ctx);                          \
    } while (0)
void conf_sleep_once(struct conf_ctx *ctx);

/** Run one step of progress; sleep briefly (poller) after many idle steps. */
void conf_step(struct conf_ctx *ctx);
/** Wait until every rank has called this; progress meanwhile. */
void conf_barrier(struct conf_ctx *ctx);

/** Send, stepping while the transport returns AGAIN. */
void conf_frame(struct conf_peer *peer, const void *data, size_t bytes);
/** Try once, with `inside` set; TRYST_OK counts the frame as sent. */
tryst_status conf_frame_try(struct conf_peer *peer, const void *data, size_t bytes);
/** Return the number of frames sent that the peer has not read. */
uint64_t conf_unread(const struct conf_peer *peer);

void conf_where(struct conf_ctx *ctx, const char *file, int line, const char *what);
_Noreturn void conf_fail(struct conf_ctx *ctx, const char *file, int line,
                         const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/** End the wait if another rank failed. */
void conf_check_others(struct conf_ctx *ctx);

#define CONF_FAIL(ctx, ...) conf_fail((ctx), __FILE__, __LINE__, __VA_ARGS__)

#define CONF_CHECK(ctx, condition)              \
    do {                                        \
        if (!(condition))                       \
            CONF_FAIL((ctx), "%s", #condition); \
    } while (0)

#define CONF_EQUAL(ctx, is, want)                                                  \
    do {                                                                           \
        long long is_ = (long long)(is), want_ = (long long)(want);                \
        if (is_ != want_)                                                          \
            CONF_FAIL((ctx), "%s is %lld, not %s (%lld)", #is, is_, #want, want_); \
    } while (0)

/** Progress until `condition`, at most `seconds`. The condition is evaluated once before
 *  each step, and not again once it was true. */
#define CONF_WAIT_FOR(ctx, seconds, condition) \
    CONF_WAIT_TEXT(ctx, seconds, #condition, condition)
#define CONF_WAIT(ctx, condition) \
    CONF_WAIT_TEXT(ctx, conf_wait_s *conf_patience, #condition, condition)
#define CONF_WAIT_TEXT(ctx, seconds, text, condition)                               \
    do {                                                                            \
        conf_where((ctx), __FILE__, __LINE__, text);                                \
        struct patience patience_ = patience_begin();                               \
        while (!(condition)) {                                                      \
            conf_check_others(ctx);                                                 \
            if (patience_spent_ns(&patience_) > (uint64_t)(seconds)*NS_PER_S)       \
                CONF_FAIL((ctx), "waited %u s for: %s", (unsigned)(seconds), text); \
            conf_step(ctx);                                                         \
        }                                                                           \
    } while (0)

/** Progress for `ns`. */
void conf_idle(struct conf_ctx *ctx, uint64_t ns);

#endif
