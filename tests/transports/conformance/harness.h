/* SPDX-License-Identifier: Apache-2.0 */
/* Plays the layer above a transport, as transport.h describes it, for two or more contexts.
 *
 * One idea: a test is one function that every rank runs, in a process of its own or as a thread
 * of one child process; what ranks must tell each other beside the transport (addresses, "I have
 * posted", what went wrong) stands in a shared mapping, so the transport proves nothing to
 * itself.
 * Invariant: every wait ends; a rank that fails, crashes or hangs ends the test with what each
 * rank was waiting for. Events may only come from inside progress or a poller function: each
 * callback checks it.
 * Callers: the conformance tests in this folder. */
#ifndef TESTS_CONFORMANCE_HARNESS_H
#define TESTS_CONFORMANCE_HARNESS_H

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
#include "transports/device.h"
#include "transports/fault.h"
#include "transports/fault_script.h"
#include "transports/link/link_listen.h"
#include "transports/memory/memory.h"
#include "transports/module_load.h"
#include "transports/stage.h"
#include "transports/transport.h"

enum {
    CONF_RANKS_MAX = 65,
    CONF_WORDS = 64,
    CONF_CREDITS = 64 /* frames that the layer above leaves unread */
};

enum conf_ends { CONF_SENDS = 1, CONF_RECEIVES = 2 };

/* What is tested: from the command line, one ctest each. */
struct conf_subject {
    const char *name;        /* for messages: "shm_cma" */
    const char *transport;   /* "shm" */
    const char *settings[8]; /* "shm_mech=cma", ended by NULL */
    bool threads_only;       /* reaches its own process only: nothing can be killed */
    bool regions;            /* bulk buffers are registered regions */
    unsigned on_device;      /* which of them are device memory: enum conf_ends */
    bool run_long;
    long leaks_kib;       /* what the fabric's library loses in a life (closing.c) */
    const char *sabotage; /* a fault of sabotage.c, or NULL */
};

struct conf_ctx;

struct conf_peer {
    struct conf_ctx *ctx;
    int rank;
    struct link *link; /* NULL for oneself */
    int pidfd;
    struct endpoint *ep;
    struct conf_early *early, **early_end; /* connect messages before ep_open */
    bool ready_called, ready, failed, closed, closing;
    bool left;        /* the peer said that it closes its endpoint */
    bool link_closed; /* it is gone */
    bool may_fail;    /* the peer goes, or is attacked: events->failed is all right */
    tryst_status ready_status, failed_status;
    char text[TRANSPORT_TEXT_MAX];
    uint64_t frames_sent, frames_read;
    uint64_t unexpected_count, unexpected_tag, unexpected_bytes;
    int bulk_live; /* posted or being sent, not yet done */
    struct stage_lane lane;
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
    tryst_host host;
    struct poller poller;
    const struct transport_ops *ops;
    struct rail *rail;
    struct link_listener *listener;
    struct memory_cache *regions;
    struct place_devices devices;
    struct stage stage; /* above the rail, as in the library: device memory passes it */
    struct conf_peer peers[CONF_RANKS_MAX];
    struct random random;
    int inside;          /* calls into the transport during which nothing may call back */
    uint64_t barriers;   /* passed so far */
    int opens;           /* conf_open calls so far; the ranks do them in step */
    bool mutate;         /* an attacker: its connect messages are damaged on the way */
    uint64_t idle_count; /* steps in a row without an event */
    uint64_t again_count;
    jmp_buf escape;
};

/* One rank's corner of the shared mapping. */
struct conf_rank {
    struct link_address address;
    uint64_t nonce;
    _Atomic int published; /* how many times: address and nonce are those of this one */
    _Atomic int
        passed; /* the test function returned, or was cut short by another's failure */
    _Atomic int mortal; /* may be killed */
    _Atomic uint64_t
        frames_read[CONF_RANKS_MAX]; /* from each rank: credit without frames */
    char where[160];
    char failure[512];
};

struct conf_shared {
    /* seq_cst throughout: it is a test's signalling, and speed is no matter. */
    _Atomic int failed;
    _Atomic uint64_t arrived; /* at barriers, all together */
    _Atomic uint64_t words[CONF_WORDS];
    int pids[CONF_RANKS_MAX];
    struct conf_rank ranks[CONF_RANKS_MAX];
};

typedef void (*conf_body)(struct conf_ctx *ctx);

enum conf_mode { CONF_PROCESSES, CONF_THREADS };

/* Run `body` in `ranks` ranks and fail the cmocka test if one of them fails, leaks memory or
 * descriptors, or is not through after `limit_s`. */
void conf_run(const struct conf_subject *subject, enum conf_mode mode, int ranks,
              unsigned limit_s, conf_body body);

/* The same without cmocka: true when all went well, else `text` says what did not. */
enum { CONF_TEXT_MAX = 800 };
bool conf_try(const struct conf_subject *subject, enum conf_mode mode, int ranks,
              unsigned limit_s, conf_body body, char *text);

/* The transport's table; NULL and why when it is not there. */
const struct transport_ops *conf_ops(const struct conf_subject *subject, char *text);

/* Is there a device to use? Says why not. */
bool conf_device_there(const struct conf_subject *subject);

/* Which repetition of the case this is; it goes into every rank's seed. */
extern uint64_t conf_round;

/* How long anything that should come may take, and how long a sleeper may sleep; times
 * conf_patience. 20 and 5, but for test_sabotage.c. */
extern _Atomic unsigned conf_wait_s, conf_wake_s;

/* Slower builds (sanitizers) get more time: 1 in plain builds. */
extern const unsigned conf_patience;

/* ---- for bodies ---- */

/* How often: `fewer` where each time takes long (sanitizers; a driver's calls for each buffer). */
static inline uint64_t conf_times(const struct conf_ctx *ctx, uint64_t times,
                                  uint64_t fewer)
{
    return conf_patience > 1 || ctx->subject->on_device ? fewer : times;
}

/* A rail, and a listener for links. Published to the other ranks. */
void conf_open(struct conf_ctx *ctx);
/* A link and an endpoint to `rank`, which does the same; returns when it is ready. */
struct conf_peer *conf_connect(struct conf_ctx *ctx, int rank);
/* The parts: the link alone; then the endpoint, without waiting. */
struct conf_peer *conf_link(struct conf_ctx *ctx, int rank);
void conf_ep_open(struct conf_peer *peer);
/* ep_close without waiting; conf_closed waits, for at most 2 s, until its copies have ended, too. */
void conf_ep_close(struct conf_peer *peer);
void conf_closed(struct conf_peer *peer);
bool conf_gone(const struct conf_peer *peer);
/* All endpoints, links and the rail, when all ranks have come this far; or alone, where peers
 * may be dead. */
void conf_close(struct conf_ctx *ctx);
void conf_close_alone(struct conf_ctx *ctx);
/* The peer's process is gone: its link closed, or its pidfd says so. */
bool conf_dead(const struct conf_peer *peer);
/* The usual frame around a test of two: open, connect to the other. */
struct conf_peer *conf_pair(struct conf_ctx *ctx);

/* Sleep as a host does (arm, then the poller) until `condition`, and fail when an event has not
 * woken us within 5 s. */
#define CONF_SLEEP(ctx, condition)                         \
    do {                                                   \
        conf_where((ctx), __FILE__, __LINE__, #condition); \
        while (!(condition))                               \
            conf_sleep_once(ctx);                          \
    } while (0)
void conf_sleep_once(struct conf_ctx *ctx);

/* One step of progress; sleeps a little (poller) when it has been idle for long. */
void conf_step(struct conf_ctx *ctx);
/* Everybody has come this far. Goes on progressing meanwhile. */
void conf_barrier(struct conf_ctx *ctx);

/* Send, stepping while the transport says AGAIN. */
void conf_frame(struct conf_peer *peer, const void *data, size_t bytes);
/* One try, with `inside` set; TRYST_OK counts it as sent. */
tryst_status conf_frame_try(struct conf_peer *peer, const void *data, size_t bytes);
/* Frames of ours that the peer has not read. */
uint64_t conf_unread(const struct conf_peer *peer);

void conf_where(struct conf_ctx *ctx, const char *file, int line, const char *what);
_Noreturn void conf_fail(struct conf_ctx *ctx, const char *file, int line,
                         const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* True when the wait must end because another rank failed. */
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

/* Progress until `condition`, at most `seconds`. It is evaluated once before each step, and not
 * again once it was true. */
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

/* Progress for a while. */
void conf_idle(struct conf_ctx *ctx, uint64_t ns);

#endif
