/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Progress: one thread at a time drives the engine; the others sleep until it is their turn or
 * their operation is done.
 *
 * Idea: whoever waits drives. A thread that finds the role taken joins a line with a condition
 * variable of its own, so exactly the threads whose operations are done are woken, and the role is
 * handed to the first in line when its holder leaves.
 *
 * Invariant: while the role is free, no thread is in line without having been signalled.
 *
 * Memory order. Two patterns of store, then load, on both sides (Dekker) keep wake-ups from being
 * lost:
 *   - holder: `held` = false, then load `waiting`; a thread joining: `waiting` + 1, then try
 *     `held`. Either the holder sees the thread and signals it, or the thread sees the role free.
 *     All four are seq_cst.
 *   - holder: store outcomes (op.c, release), then add 0 to `waiting`; a thread joining: `waiting`
 *     + 1, then load the outcome. Both are acq_rel read-modify-writes of one word, so one comes
 *     first: either the holder reads the thread's 1, or the thread sees the outcomes. One for all
 *     that completed in a pass. A holder that leaves right after it needs none: by the first
 *     pattern it sees the thread and signals it, or the thread sees the role free, and by that
 *     acquire the outcomes too.
 * Taking the role is an acquire, giving it a release: all that the progress domain holds passes
 * from one holder to the next.
 *
 * Callers: users' waits and tryst_progress, the background thread, open and close.
 */
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#include "context.h"
#include "idle.h"
#include "rendezvous/live_context.h"
#include "rendezvous/op/op.h"
#include "rendezvous/rendezvous.h"
#include "rendezvous/submission.h"

/** A pass that finds nothing costs about 0.1 µs, an epoll call about 1 µs: look at the
 *  descriptors in one pass of so many. */
enum { PASSES_PER_POLL = 256 };
/** Idle passes between two looks at the clock, and before the processor is offered to others. */
enum { PASSES_PER_CLOCK = 64, PASSES_PER_YIELD = 256 };
/** Calls of tryst_progress that find nothing look at the descriptors this often. */
#define POLL_NS (1 * NS_PER_MS)
/** Longest sleep; everything that matters wakes the poller before. */
#define SLEEP_MAX_NS (60 * NS_PER_S)
/** A thread in line looks again after this long, whatever happens. */
#define LINE_MAX_NS (1 * NS_PER_S)

struct waiter {
    struct list_node node;
    pthread_cond_t wake;
    const tryst_op *op; /* NULL: waits for the role only */
    bool signalled;
};

tryst_status progress_open(tryst_ctx *ctx)
{
    struct progress *progress = &ctx->progress;
    list_init(&progress->line);
    progress->spin_ns = config_time_ns(ctx->config, CONFIG_SPIN);
    if (pthread_mutex_init(&progress->lock, NULL) != 0)
        return TRYST_E_SYSTEM;
    if (pthread_mutex_init(&progress->thread_lock, NULL) != 0) {
        pthread_mutex_destroy(&progress->lock);
        return TRYST_E_SYSTEM;
    }
    return TRYST_OK;
}

void progress_close(tryst_ctx *ctx)
{
    pthread_mutex_destroy(&ctx->progress.lock);
    pthread_mutex_destroy(&ctx->progress.thread_lock);
}

/* ---- role --------------------------------------------------------------------------------- */

/** The role that this thread took last and still has. A callback may be told in one and need
 *  another's, so they form a chain. initial-exec: one load instead of a call. */
static _Thread_local struct progress *role_mine
    __attribute__((tls_model("initial-exec")));

static bool role_try(struct progress *progress)
{
    /* relaxed: a cheap look before the exchange. */
    if (atomic_load_explicit(&progress->held, memory_order_relaxed) ||
        atomic_exchange_explicit(&progress->held, true, memory_order_seq_cst))
        return false;
    progress->outer = role_mine;
    role_mine = progress;
    return true;
}

bool progress_role_is_mine(const tryst_ctx *ctx)
{
    const struct progress *progress = role_mine;
    while (progress && progress != &ctx->progress)
        progress = progress->outer;
    return progress != NULL;
}

/** Signal the first in line that nobody has signalled; threads that want the role itself first. */
static void line_wake_first(struct progress *progress)
{
    struct waiter *first = NULL;
    list_for_each_safe (&progress->line, node, after) {
        struct waiter *waiter = container_of(node, struct waiter, node);
        if (waiter->signalled)
            continue;
        if (!first || (!waiter->op && first->op))
            first = waiter;
    }
    if (first) {
        first->signalled = true;
        pthread_cond_signal(&first->wake);
    }
}

/** Signal those in line whose operations have completed. */
static void line_wake_done(struct progress *progress)
{
    list_for_each_safe (&progress->line, node, after) {
        struct waiter *waiter = container_of(node, struct waiter, node);
        if (waiter->op && !waiter->signalled &&
            tryst_op_test(waiter->op) != TRYST_IN_PROGRESS) {
            waiter->signalled = true;
            pthread_cond_signal(&waiter->wake);
        }
    }
}

/** The role is free; somebody in line may take it. */
static void role_give(struct progress *progress)
{
    progress->untold = false;
    role_mine = progress->outer; /* roles are given back in reverse order */
    atomic_store_explicit(&progress->held, false, memory_order_seq_cst);
    if (!atomic_load_explicit(&progress->waiting, memory_order_seq_cst))
        return;
    pthread_mutex_lock(&progress->lock);
    line_wake_done(progress);
    line_wake_first(progress);
    pthread_mutex_unlock(&progress->lock);
}

void progress_role_put(tryst_ctx *ctx)
{
    struct progress *progress = &ctx->progress;
    rendezvous_settle(ctx->rdv);
    rendezvous_live_leave(ctx->rdv);
    if (!progress->armed)
        rendezvous_awake(ctx->rdv);
    /* Its rails are no longer armed, and submissions will not wake it. */
    if (progress->loop_sleeps && !progress->armed)
        poller_wake(&ctx->poller);
    role_give(progress);
}

bool progress_enter(void *ctx)
{
    return role_try(&((tryst_ctx *)ctx)->progress);
}

void progress_leave(void *ctx)
{
    role_give(&((tryst_ctx *)ctx)->progress);
}

/** Wake those in line whose operations have completed since this was last done. Role held. */
static void line_tell(struct progress *progress)
{
    progress->untold = false;
    /* acq_rel: see above. */
    if (!atomic_fetch_add_explicit(&progress->waiting, 0, memory_order_acq_rel))
        return;
    pthread_mutex_lock(&progress->lock);
    line_wake_done(progress);
    pthread_mutex_unlock(&progress->lock);
}

static struct timespec timespec_of(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / NS_PER_S),
                             .tv_nsec = (long)(ns % NS_PER_S)};
}

static void cond_open(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}

/** Sleep in line until `op` is done, the role is free, or `until_ns`. */
static void line_wait(struct progress *progress, const tryst_op *op, uint64_t until_ns)
{
    struct waiter waiter = {.op = op};
    uint64_t latest = clock_monotonic_ns() + LINE_MAX_NS;
    struct timespec at = timespec_of(until_ns < latest ? until_ns : latest);
    int rc = 0;
    cond_open(&waiter.wake);
    pthread_mutex_lock(&progress->lock);
    list_push_back(&progress->line, &waiter.node);
    atomic_fetch_add_explicit(&progress->waiting, 1, memory_order_seq_cst);
    while (!waiter.signalled && rc == 0 &&
           atomic_load_explicit(&progress->held, memory_order_seq_cst) &&
           (!op || tryst_op_test(op) == TRYST_IN_PROGRESS))
        rc = pthread_cond_timedwait(&waiter.wake, &progress->lock, &at);
    atomic_fetch_sub_explicit(&progress->waiting, 1, memory_order_seq_cst);
    list_remove(&waiter.node);
    /* A signal that was meant to pass the role on must not end with a thread that does not
     * take it. */
    bool takes = rc == 0 && (!op || tryst_op_test(op) == TRYST_IN_PROGRESS);
    bool pass_on = waiter.signalled && !takes &&
                   !atomic_load_explicit(&progress->held, memory_order_seq_cst);
    if (pass_on)
        line_wake_first(progress);
    pthread_mutex_unlock(&progress->lock);
    pthread_cond_destroy(&waiter.wake);
}

bool progress_role_take(tryst_ctx *ctx, uint64_t timeout_ns)
{
    struct progress *progress = &ctx->progress;
    uint64_t now_ns = clock_monotonic_ns();
    uint64_t until_ns =
        timeout_ns > UINT64_MAX - now_ns ? UINT64_MAX : now_ns + timeout_ns;
    if (role_try(progress))
        return true;
    /* relaxed: a hint to the holder; the line does the rest. */
    atomic_fetch_add_explicit(&progress->urgent, 1, memory_order_relaxed);
    poller_wake(&ctx->poller);
    bool got = role_try(progress);
    while (!got && clock_monotonic_ns() < until_ns) {
        line_wait(progress, NULL, until_ns);
        got = role_try(progress);
    }
    atomic_fetch_sub_explicit(&progress->urgent, 1, memory_order_relaxed);
    return got;
}

/* ---- driving ------------------------------------------------------------------------------ */

/** One pass of everything. Role held; those in line hear of it before the next one, or when the role
 *  is given. */
static int pass(tryst_ctx *ctx)
{
    struct progress *progress = &ctx->progress;
    int count = 0;
    if (progress->untold)
        line_tell(progress);
    if (progress->armed || ++progress->passes >= PASSES_PER_POLL) {
        progress->passes = 0;
        progress->armed = false;
        count += poller_run(&ctx->poller, 0);
    }
    count += rendezvous_progress(ctx->rdv);
    progress->untold = count > 0;
    return count;
}

int progress_pass(tryst_ctx *ctx)
{
    return pass(ctx);
}

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

/** Does another thread want the role itself? */
static bool role_is_wanted(const tryst_ctx *ctx)
{
    /* relaxed: a hint; seen one pass later it does as well. */
    return atomic_load_explicit(&ctx->progress.urgent, memory_order_relaxed) != 0;
}

/** Sleep on the descriptors until something happens, if it is time to; `op` is what for, if it is one.
 *  Role held. */
static void sleep_armed(tryst_ctx *ctx, tryst_op *op, uint64_t until_ns,
                        struct idle *idle)
{
    uint64_t now_ns = clock_monotonic_ns();
    if (ctx->progress.untold)
        line_tell(&ctx->progress);
    rendezvous_live_wait(ctx->rdv, op, TRYST_LIVE_IN_WAIT, now_ns);
    tryst_status armed = rendezvous_arm(ctx->rdv);
    if (idle_sleeps(idle, ctx->progress.spin_ns, armed) && !role_is_wanted(ctx)) {
        poller_run(&ctx->poller, sleep_ns(ctx, now_ns, until_ns, armed));
        ctx->progress.passes = 0;
    }
    rendezvous_awake(ctx->rdv);
}

/** Outside callbacks: those see their own operation's outcome before others do. */
static bool op_is_done(void *arg)
{
    const tryst_op *op = arg;
    /* acquire: partner of the store in op_complete_all. */
    return atomic_load_explicit(&op->outcome, memory_order_acquire) != TRYST_IN_PROGRESS;
}

bool progress_until(tryst_ctx *ctx, bool (*done)(void *arg), void *arg,
                    uint64_t timeout_ns)
{
    uint64_t begin_ns = 0; /* read when it first matters */
    uint64_t spin_ns = ctx->progress.spin_ns;
    struct idle idle;
    uint32_t turns = 0;
    idle_begin(&idle, spin_ns);
    while (!done(arg) && !role_is_wanted(ctx)) {
        if (pass(ctx) > 0)
            idle_begin(&idle, spin_ns);
        else
            idle.passes++;
        if (idle.passes % PASSES_PER_YIELD == PASSES_PER_YIELD - 1)
            sched_yield();
        if (++turns % PASSES_PER_CLOCK)
            continue;
        uint64_t now_ns = clock_monotonic_ns();
        begin_ns = begin_ns ? begin_ns : now_ns;
        uint64_t spent_ns = clock_since_ns(begin_ns, now_ns);
        if (spent_ns >= timeout_ns)
            break;
        if (idle_is_due(&idle, now_ns)) {
            uint64_t left = timeout_ns - spent_ns;
            sleep_armed(ctx, done == op_is_done ? arg : NULL,
                        left > UINT64_MAX - now_ns ? UINT64_MAX : now_ns + left, &idle);
        }
    }
    return done(arg);
}

void progress_role_pass(tryst_ctx *ctx)
{
    progress_role_put(ctx);
    for (int i = 0; i < 1000 && role_is_wanted(ctx) &&
                    !atomic_load_explicit(&ctx->progress.held, memory_order_relaxed);
         i++)
        sched_yield();
}

/* ---- public ------------------------------------------------------------------------------- */

static tryst_ctx *op_ctx(const tryst_op *op)
{
    return rendezvous_owner(op->rdv);
}

/** Until `op` is done: drive, or stand in line while another thread drives. */
static void op_await(tryst_ctx *ctx, tryst_op *op, uint64_t timeout_ns)
{
    uint64_t begin_ns = clock_monotonic_ns();
    for (uint64_t spent_ns = 0; !op_is_done(op) && spent_ns < timeout_ns;
         spent_ns = clock_since_ns(begin_ns, clock_monotonic_ns())) {
        uint64_t left_ns = timeout_ns - spent_ns;
        if (role_try(&ctx->progress)) {
            progress_until(ctx, op_is_done, op, left_ns);
            progress_role_pass(ctx);
        } else {
            uint64_t now_ns = begin_ns + spent_ns;
            line_wait(&ctx->progress, op,
                      left_ns > UINT64_MAX - now_ns ? UINT64_MAX : now_ns + left_ns);
        }
    }
}

tryst_status tryst_wait(tryst_op *op, uint64_t timeout_ns)
{
    if (!op || op_callback_runs())
        return TRYST_E_INVALID;
    tryst_status status = tryst_op_test(op);
    if (status != TRYST_IN_PROGRESS)
        return status;
    tryst_ctx *ctx = op_ctx(op);
    /* The usual case needs no clock: the role is free and the operation ends in time. */
    if (timeout_ns && role_try(&ctx->progress)) {
        bool done = progress_until(ctx, op_is_done, op, timeout_ns);
        bool wanted = role_is_wanted(ctx);
        progress_role_pass(ctx);
        if (!done && wanted)
            op_await(ctx, op, timeout_ns);
    } else {
        op_await(ctx, op, timeout_ns);
    }
    status = tryst_op_test(op);
    return status == TRYST_IN_PROGRESS ? TRYST_E_TIMEOUT : status;
}

/** What is left of a time-out that began at `begin_ns`. */
static uint64_t timeout_left_ns(uint64_t timeout_ns, uint64_t begin_ns)
{
    if (timeout_ns == TRYST_FOREVER)
        return timeout_ns;
    uint64_t spent_ns = clock_since_ns(begin_ns, clock_monotonic_ns());
    return spent_ns < timeout_ns ? timeout_ns - spent_ns : 0;
}

tryst_status tryst_wait_all(tryst_op *const *ops, size_t ops_count, uint64_t timeout_ns)
{
    uint64_t begin_ns = timeout_ns == TRYST_FOREVER ? 0 : clock_monotonic_ns();
    tryst_status first = TRYST_OK;
    if (ops_count && (!ops || op_callback_runs()))
        return TRYST_E_INVALID;
    for (size_t i = 0; i < ops_count; i++) {
        if (!ops[i])
            continue;
        tryst_status status = tryst_op_test(ops[i]);
        if (status == TRYST_IN_PROGRESS)
            status = tryst_wait(ops[i], timeout_left_ns(timeout_ns, begin_ns));
        if (status == TRYST_E_TIMEOUT || status == TRYST_E_FORKED)
            return status;
        if (first == TRYST_OK)
            first = status;
    }
    return first;
}

/** A caller that comes seldom must not need PASSES_PER_POLL calls to hear of a death, nor the
 *  engine's number of them to look at the clock. */
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

int tryst_progress(tryst_ctx *ctx)
{
    if (!ctx || rendezvous_usable(ctx->rdv) == TRYST_E_FORKED || op_callback_runs() ||
        !role_try(&ctx->progress))
        return 0;
    rendezvous_awake(ctx->rdv);
    ctx->progress.loop_sleeps = false;
    int count = pass(ctx);
    if (!count)
        count = poll_when_due(ctx);
    progress_role_put(ctx);
    return count;
}

int tryst_event_fd(tryst_ctx *ctx)
{
    return ctx && rendezvous_usable(ctx->rdv) != TRYST_E_FORKED ? ctx->poller.epoll_fd
                                                                : -1;
}

tryst_status tryst_arm(tryst_ctx *ctx)
{
    if (!ctx)
        return TRYST_E_INVALID;
    if (rendezvous_usable(ctx->rdv) == TRYST_E_FORKED)
        return TRYST_E_FORKED;
    if (!role_try(&ctx->progress))
        return TRYST_AGAIN;
    tryst_status status = rendezvous_arm(ctx->rdv);
    if (status == TRYST_AGAIN) {
        progress_role_put(ctx);
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
    /* Unlike progress_role_put: submissions must go on waking the descriptor. */
    role_give(&ctx->progress);
    return TRYST_OK;
}

void tryst_wake(tryst_ctx *ctx)
{
    if (ctx && rendezvous_usable(ctx->rdv) != TRYST_E_FORKED)
        poller_wake(&ctx->poller);
}
