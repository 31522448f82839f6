/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Progress: one thread at a time drives the engine; the others sleep until they get the
 * lock or their operation is done.
 *
 * Idea: a thread that waits drives. A thread that finds the progress lock taken becomes a
 * waiter with a condition variable of its own, so the holder wakes exactly the threads
 * that wait for finished operations, and signals the first waiter when it leaves.
 *
 * Invariant: while the lock is free, every waiter has been signalled.
 *
 * Memory order. Two pairs of a store followed by a load on both sides (Dekker) keep
 * wake-ups from being lost:
 *   - The holder stores `held` = false, then loads `waiters_count`; a new waiter adds 1
 *     to `waiters_count`, then loads `held`. Either the holder reads the waiter's 1 and
 *     signals the waiter, or the waiter reads that the lock is free. All four are
 *     seq_cst.
 *   - The holder stores outcomes (op.c, release), then adds 0 to `waiters_count`; a new
 *     waiter adds 1 to `waiters_count`, then loads its outcome. Both additions are
 *     read-modify-writes of one word (the holder's acq_rel, the waiter's seq_cst), so one
 *     comes first: either the holder reads the waiter's 1, or the waiter reads the
 *     outcomes. One addition serves all operations that completed in a pass. A holder
 *     that releases the lock after the pass needs no addition: by the first pair it reads
 *     the waiter's 1 and signals the waiter, or the waiter reads that the lock is free
 *     and, by the acquire of that load, the outcomes.
 * Taking the lock is an acquire and releasing it a release, so all state of the progress
 * domain passes from one holder to the next.
 */
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#include "commsched/profile/recorder.h"
#include "core/text/refuse.h"
#include "ctx.h"
#include "idle.h"
#include "rendezvous/live_context.h"
#include "rendezvous/op/op.h"
#include "rendezvous/rendezvous.h"
#include "rendezvous/submission.h"
#include "thread.h"

/* One of this many passes polls the descriptors: an idle pass costs about 0.1 µs, an
 * epoll call about 1 µs. */
enum { PASSES_PER_POLL = 256 };
/* PASSES_PER_CLOCK: the most passes of a wait between two readings of the clock.
 * PASSES_PER_YIELD: idle passes before the thread yields its processor. */
enum { PASSES_PER_CLOCK = 64, PASSES_PER_YIELD = 256 };
/* The number of passes between two readings shrinks where they take longer than this:
 * a pass that moves bulk by system calls takes half a millisecond, and a wait must
 * end in time. */
#define CLOCK_NS (1 * NS_PER_MS)
/* How often calls of tryst_progress without an event poll the descriptors. */
#define POLL_NS (1 * NS_PER_MS)
/* The longest sleep of a driver; events and timers end it earlier. */
#define SLEEP_MAX_NS (60 * NS_PER_S)
/* The longest sleep of a waiter without a signal. */
#define WAIT_MAX_NS (1 * NS_PER_S)

struct waiter {
    struct list_node node;
    pthread_cond_t wake;
    const struct wait *wait;
    bool signalled;
};

/* Return the end of the wait; the first call computes it from `now_ns`. */
static uint64_t wait_until_ns(struct wait *wait, uint64_t now_ns)
{
    if (!wait->until_ns)
        wait->until_ns = wait->timeout_ns > UINT64_MAX - now_ns
                             ? UINT64_MAX
                             : now_ns + wait->timeout_ns;
    return wait->until_ns;
}

/* True if the time-out has passed. */
static bool wait_has_expired(struct wait *wait)
{
    uint64_t now_ns = clock_monotonic_ns();
    return now_ns >= wait_until_ns(wait, now_ns);
}

static bool waiter_is_done(const struct waiter *waiter)
{
    return waiter->wait->done && waiter->wait->done(waiter->wait->arg);
}

tryst_status progress_open(tryst_ctx *ctx)
{
    struct progress *progress = &ctx->progress;
    list_init(&progress->waiters);
    progress->spin_ns = config_time_ns(ctx->config, CONFIG_SPIN);
    progress->clock_stride = PASSES_PER_CLOCK;
    if (pthread_mutex_init(&progress->waiters_mutex, NULL) != 0)
        return TRYST_E_SYSTEM;
    if (pthread_mutex_init(&progress->thread_mutex, NULL) != 0)
        goto waiters_destroy;
    if (thread_cond_open(&progress->thread_wake) == 0)
        return TRYST_OK;
    pthread_mutex_destroy(&progress->thread_mutex);
waiters_destroy:
    pthread_mutex_destroy(&progress->waiters_mutex);
    return TRYST_E_SYSTEM;
}

void progress_close(tryst_ctx *ctx)
{
    pthread_mutex_destroy(&ctx->progress.waiters_mutex);
    pthread_mutex_destroy(&ctx->progress.thread_mutex);
    pthread_cond_destroy(&ctx->progress.thread_wake);
}

/* ---- lock -------------------------------------------------------------------------- */

/* The progress lock that this thread took last and still holds. A callback runs under
 * the lock of one context and may take another context's, so the locks form a chain.
 * initial-exec: one load instead of a call. */
static _Thread_local struct progress *lock_mine
    __attribute__((tls_model("initial-exec")));

static bool lock_try(struct progress *progress)
{
    /* relaxed: a cheap test before the exchange. */
    if (atomic_load_explicit(&progress->held, memory_order_relaxed) ||
        atomic_exchange_explicit(&progress->held, true, memory_order_seq_cst))
        return false;
    progress->outer = lock_mine;
    lock_mine = progress;
    return true;
}

bool progress_lock_is_mine(const tryst_ctx *ctx)
{
    const struct progress *progress = lock_mine;
    while (progress && progress != &ctx->progress)
        progress = progress->outer;
    return progress != NULL;
}

/* Signal one waiter that has not been signalled: the first that waits for the lock
 * itself, else the first that waits for an operation. */
static void waiters_wake_first(struct progress *progress)
{
    struct waiter *first = NULL;
    list_for_each_safe (&progress->waiters, node, after) {
        struct waiter *waiter = container_of(node, struct waiter, node);
        if (waiter->signalled)
            continue;
        if (!first || (!waiter->wait->done && first->wait->done))
            first = waiter;
    }
    if (first) {
        first->signalled = true;
        pthread_cond_signal(&first->wake);
    }
}

/* Signal the waiters for operations that have completed. */
static void waiters_wake_done(struct progress *progress)
{
    list_for_each_safe (&progress->waiters, node, after) {
        struct waiter *waiter = container_of(node, struct waiter, node);
        if (!waiter->signalled && waiter_is_done(waiter)) {
            waiter->signalled = true;
            pthread_cond_signal(&waiter->wake);
        }
    }
}

/* Release the lock and signal waiters. */
static void lock_give(struct progress *progress)
{
    progress->wakeups_pending = false;
    lock_mine = progress->outer; /* a thread releases its locks in reverse order */
    atomic_store_explicit(&progress->held, false, memory_order_seq_cst);
    if (!atomic_load_explicit(&progress->waiters_count, memory_order_seq_cst))
        return;
    pthread_mutex_lock(&progress->waiters_mutex);
    waiters_wake_done(progress);
    waiters_wake_first(progress);
    pthread_mutex_unlock(&progress->waiters_mutex);
}

void progress_lock_put(tryst_ctx *ctx)
{
    struct progress *progress = &ctx->progress;
    rendezvous_settle(ctx->rdv);
    rendezvous_live_leave(ctx->rdv);
    if (!progress->armed)
        rendezvous_awake(ctx->rdv);
    /* The loop sleeps, but its rails are no longer armed and submissions would not
     * wake it. */
    if (progress->loop_sleeps && !progress->armed)
        poller_wake(&ctx->poller);
    lock_give(progress);
}

bool progress_enter(void *ctx)
{
    return lock_try(&((tryst_ctx *)ctx)->progress);
}

void progress_leave(void *ctx)
{
    lock_give(&((tryst_ctx *)ctx)->progress);
}

/* Signal the waiters for operations that have completed since the last call. The caller
 * holds the lock. */
static void waiters_wake_pending(struct progress *progress)
{
    progress->wakeups_pending = false;
    /* acq_rel: the second pair of the file's header. */
    if (!atomic_fetch_add_explicit(&progress->waiters_count, 0, memory_order_acq_rel))
        return;
    pthread_mutex_lock(&progress->waiters_mutex);
    waiters_wake_done(progress);
    pthread_mutex_unlock(&progress->waiters_mutex);
}

/* Sleep among the waiters until `wait` is done or over, or the lock is free. */
static void waiter_wait(struct progress *progress, struct wait *wait)
{
    struct waiter waiter = {.wait = wait};
    uint64_t now_ns = clock_monotonic_ns();
    uint64_t until_ns = wait_until_ns(wait, now_ns);
    uint64_t latest = now_ns + WAIT_MAX_NS;
    struct timespec at = timespec_of(until_ns < latest ? until_ns : latest);
    int rc = 0;
    thread_cond_open(&waiter.wake);
    pthread_mutex_lock(&progress->waiters_mutex);
    list_push_back(&progress->waiters, &waiter.node);
    atomic_fetch_add_explicit(&progress->waiters_count, 1, memory_order_seq_cst);
    while (!waiter.signalled && rc == 0 &&
           atomic_load_explicit(&progress->held, memory_order_seq_cst) &&
           !waiter_is_done(&waiter))
        rc = pthread_cond_timedwait(&waiter.wake, &progress->waiters_mutex, &at);
    atomic_fetch_sub_explicit(&progress->waiters_count, 1, memory_order_seq_cst);
    list_remove(&waiter.node);
    /* A signal that hands the lock on must not end with a thread that does not take
     * the lock. */
    bool takes = rc == 0 && !waiter_is_done(&waiter);
    bool pass_on = waiter.signalled && !takes &&
                   !atomic_load_explicit(&progress->held, memory_order_seq_cst);
    if (pass_on)
        waiters_wake_first(progress);
    pthread_mutex_unlock(&progress->waiters_mutex);
    pthread_cond_destroy(&waiter.wake);
}

bool progress_lock_take(tryst_ctx *ctx, uint64_t timeout_ns)
{
    struct progress *progress = &ctx->progress;
    struct wait wait = {.timeout_ns = timeout_ns};
    if (lock_try(progress))
        return true;
    /* relaxed: a hint to the holder; correctness rests on the waiters. */
    atomic_fetch_add_explicit(&progress->urgent, 1, memory_order_relaxed);
    poller_wake(&ctx->poller);
    bool got = lock_try(progress);
    while (!got && !wait_has_expired(&wait)) {
        waiter_wait(progress, &wait);
        got = lock_try(progress);
    }
    atomic_fetch_sub_explicit(&progress->urgent, 1, memory_order_relaxed);
    return got;
}

/* ---- driving ----------------------------------------------------------------------- */

/* Waiters are signalled before the next pass, or when the lock is released. */
int progress_pass(tryst_ctx *ctx)
{
    struct progress *progress = &ctx->progress;
    int count = 0;
    if (progress->wakeups_pending)
        waiters_wake_pending(progress);
    if (progress->armed || ++progress->passes >= PASSES_PER_POLL) {
        progress->passes = 0;
        progress->armed = false;
        count += poller_run(&ctx->poller, 0);
    }
    count += rendezvous_progress(ctx->rdv);
    progress->wakeups_pending = count > 0;
    return count;
}

/* Return how long a driver may sleep; `armed` is the result of arming the rails. */
static uint64_t sleep_ns(tryst_ctx *ctx, uint64_t now_ns, uint64_t until_ns,
                         tryst_status armed)
{
    uint64_t next_ns = rendezvous_next_ns(ctx->rdv);
    uint64_t most = armed == TRYST_OK ? SLEEP_MAX_NS : IDLE_NAP_NS;
    if (next_ns && next_ns <= now_ns)
        return 0;
    if (next_ns && next_ns - now_ns < most)
        most = next_ns - now_ns;
    if (until_ns <= now_ns)
        return 0;
    return until_ns - now_ns < most ? until_ns - now_ns : most;
}

/* True if another thread waits for the lock itself. */
static bool lock_is_wanted(const tryst_ctx *ctx)
{
    /* relaxed: a hint, which may arrive a pass later. */
    return atomic_load_explicit(&ctx->progress.urgent, memory_order_relaxed) != 0;
}

/* Arm the rails, and sleep on the descriptors until an event or the end of `wait`
 * (idle.h). The caller holds the lock. */
static void sleep_armed(tryst_ctx *ctx, struct wait *wait, struct idle *idle)
{
    uint64_t now_ns = clock_monotonic_ns();
    if (ctx->progress.wakeups_pending)
        waiters_wake_pending(&ctx->progress);
    rendezvous_live_wait(ctx->rdv, wait->op, TRYST_LIVE_IN_WAIT, now_ns);
    tryst_status armed = rendezvous_arm(ctx->rdv);
    if (idle_sleeps(idle, ctx->progress.spin_ns, armed) && !lock_is_wanted(ctx)) {
        poller_run(&ctx->poller,
                   sleep_ns(ctx, now_ns, wait_until_ns(wait, now_ns), armed));
        ctx->progress.passes = 0;
    }
    rendezvous_awake(ctx->rdv);
}

/* Return after how many passes the clock is read again, when the last `passes` took
 * `spent_ns`. */
static uint32_t clock_stride(uint32_t passes, uint64_t spent_ns)
{
    if (spent_ns > CLOCK_NS)
        return passes > 1 ? passes / 2 : 1;
    return spent_ns < CLOCK_NS / 4 && passes < PASSES_PER_CLOCK ? 2 * passes : passes;
}

/* Drive until `wait` is done or over, or another thread waits for the lock itself.
 * The caller holds the lock. */
static bool drive_until(tryst_ctx *ctx, struct wait *wait)
{
    uint64_t spin_ns = ctx->progress.spin_ns;
    struct idle idle;
    uint32_t turns = 0;
    uint64_t clock_read_ns = 0;
    idle_begin(&idle, spin_ns);
    while (!wait->done(wait->arg) && !lock_is_wanted(ctx)) {
        if (progress_pass(ctx) > 0)
            idle_begin(&idle, spin_ns);
        else
            idle.passes++;
        if (idle.passes % PASSES_PER_YIELD == PASSES_PER_YIELD - 1)
            sched_yield();
        if (++turns < ctx->progress.clock_stride)
            continue;
        uint64_t now_ns = clock_monotonic_ns();
        if (clock_read_ns)
            ctx->progress.clock_stride = clock_stride(turns, now_ns - clock_read_ns);
        clock_read_ns = now_ns;
        turns = 0;
        if (now_ns >= wait_until_ns(wait, now_ns))
            break;
        if (idle_poll(&idle, now_ns)) {
            sleep_armed(ctx, wait, &idle);
            clock_read_ns = 0; /* the sleep does not count as passes */
        }
    }
    return wait->done(wait->arg);
}

bool progress_until(tryst_ctx *ctx, bool (*done)(void *arg), void *arg,
                    uint64_t timeout_ns)
{
    struct wait wait = {.done = done, .arg = arg, .timeout_ns = timeout_ns};
    return drive_until(ctx, &wait);
}

void progress_lock_pass(tryst_ctx *ctx)
{
    progress_lock_put(ctx);
    for (int i = 0; i < 1000 && lock_is_wanted(ctx) &&
                    !atomic_load_explicit(&ctx->progress.held, memory_order_relaxed);
         i++)
        sched_yield();
}

/* Drive, or sleep while another thread drives, until `wait` is done or over. */
static void await(tryst_ctx *ctx, struct wait *wait)
{
    while (!wait->done(wait->arg) && !wait_has_expired(wait)) {
        if (lock_try(&ctx->progress)) {
            drive_until(ctx, wait);
            progress_lock_pass(ctx);
        } else {
            waiter_wait(&ctx->progress, wait);
        }
    }
}

/* Where the lock is free and the wait ends soon, the usual case, the clock is not
 * read. */
static void await_directly(tryst_ctx *ctx, struct wait *wait)
{
    bool wanted = true;
    if (wait->timeout_ns && lock_try(&ctx->progress)) {
        bool done = drive_until(ctx, wait);
        wanted = !done && lock_is_wanted(ctx);
        progress_lock_pass(ctx);
    }
    if (wanted)
        await(ctx, wait);
}

void progress_await(tryst_ctx *ctx, struct wait *wait)
{
    /* relaxed: a thread that starts now finds the lock taken. */
    bool displaces = wait->timeout_ns && atomic_load_explicit(&ctx->progress.thread_runs,
                                                              memory_order_relaxed);
    if (__builtin_expect(displaces, 0))
        progress_thread_displace(ctx);
    await_directly(ctx, wait);
    if (__builtin_expect(displaces, 0))
        progress_thread_resume(ctx);
}

/* ---- public ------------------------------------------------------------------------ */

/* Poll the descriptors, and let the engine read the clock, every POLL_NS: a program
 * that calls seldom must not need PASSES_PER_POLL calls to detect a death. */
static int poll_when_due(tryst_ctx *ctx)
{
    struct progress *progress = &ctx->progress;
    uint64_t now_ns = clock_monotonic_ns();
    if (now_ns < progress->poll_at_ns)
        return 0;
    progress->poll_at_ns = now_ns + POLL_NS;
    progress->passes = 0;
    rendezvous_clock_due(ctx->rdv);
    return poller_run(&ctx->poller, 0);
}

/* Make one pass, and release the lock, which the caller took. */
static inline int progress_turn(tryst_ctx *ctx)
{
    rendezvous_awake(ctx->rdv);
    ctx->progress.loop_sleeps = false;
    int count = progress_pass(ctx);
    if (!count)
        count = poll_when_due(ctx);
    progress_lock_put(ctx);
    return count;
}

/* Make one pass. The recorder of steps gets the time as that of a wait. */
__attribute__((noinline)) static int progress_turn_recorded(tryst_ctx *ctx)
{
    recorder_wait_begin(ctx->recorder);
    int count = progress_turn(ctx);
    recorder_wait_end(ctx->recorder);
    return count;
}

int tryst_progress(tryst_ctx *ctx)
{
    if (!ctx || rendezvous_usable(ctx->rdv) == TRYST_E_FORKED || op_callback_runs() ||
        !lock_try(&ctx->progress))
        return 0;
    return __builtin_expect(!ctx->recorder, 1) ? progress_turn(ctx)
                                               : progress_turn_recorded(ctx);
}

int tryst_event_fd(tryst_ctx *ctx)
{
    return ctx && rendezvous_usable(ctx->rdv) != TRYST_E_FORKED ? ctx->poller.epoll_fd
                                                                : -1;
}

tryst_status tryst_arm(tryst_ctx *ctx)
{
    if (!ctx)
        return refuse_null("arm", "ctx");
    if (rendezvous_usable(ctx->rdv) == TRYST_E_FORKED)
        return refuse_unusable("arm", TRYST_E_FORKED);
    if (!lock_try(&ctx->progress))
        return TRYST_AGAIN;
    tryst_status status = rendezvous_arm(ctx->rdv);
    if (status == TRYST_AGAIN) {
        progress_lock_put(ctx);
        return status;
    }
    uint64_t next_ns = rendezvous_next_ns(ctx->rdv);
    uint64_t now_ns = clock_monotonic_ns();
    uint64_t nap_ns = now_ns + IDLE_NAP_NS;
    bool nap = status != TRYST_OK && (!next_ns || nap_ns < next_ns);
    poller_timer_set(&ctx->poller, nap ? nap_ns : next_ns);
    ctx->progress.armed = true;
    ctx->progress.loop_sleeps = true;
    rendezvous_live_wait(ctx->rdv, NULL, TRYST_LIVE_ARMED, now_ns);
    /* Not progress_lock_put: submissions must still wake the descriptor. */
    lock_give(&ctx->progress);
    return TRYST_OK;
}

void tryst_wake(tryst_ctx *ctx)
{
    if (ctx && rendezvous_usable(ctx->rdv) != TRYST_E_FORKED)
        poller_wake(&ctx->poller);
}
