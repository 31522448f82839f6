/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Progress: one thread at a time drives the engine; the others sleep until they get the
 * lock or their operation is done (lock.c).
 *
 * Idea: a thread that waits drives.
 */
#include "progress.h"

#include <sched.h>

#include "commsched/profile/recorder.h"
#include "core/memory/alloc.h"
#include "idle.h"
#include "live_context.h"
#include "pass.h"
#include "rendezvous/op/engine.h"

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

tryst_status progress_open(struct rendezvous *rdv)
{
    struct progress *progress = mem_zalloc(sizeof *progress);
    if (!progress)
        return TRYST_E_NOMEM;
    progress->spin_ns = config_time_ns(rdv->config, CONFIG_SPIN);
    progress->clock_stride = PASSES_PER_CLOCK;
    if (progress_lock_open(&progress->lock) != TRYST_OK)
        goto free_progress;
    if (progress_thread_open(&progress->thread) != TRYST_OK)
        goto close_lock;
    if (ack_timer_open(&progress->ack_timer,
                       config_time_ns(rdv->config, CONFIG_ACK_DELAY)) != TRYST_OK)
        goto close_thread;
    rdv->progress = progress;
    return TRYST_OK;
close_thread:
    progress_thread_close(&progress->thread);
close_lock:
    progress_lock_close(&progress->lock);
free_progress:
    mem_free(progress);
    return TRYST_E_SYSTEM;
}

void progress_close(struct rendezvous *rdv)
{
    struct progress *progress = rdv->progress;
    ack_timer_stop(rdv);
    ack_timer_close(&progress->ack_timer);
    progress_thread_close(&progress->thread);
    progress_lock_close(&progress->lock);
    rdv->progress = NULL;
    mem_free(progress);
}

void progress_lock_put(struct rendezvous *rdv)
{
    struct progress *progress = rdv->progress;
    pass_flush(rdv);
    rendezvous_live_leave(rdv);
    if (!progress->armed)
        pass_awake(rdv);
    /* The loop sleeps, but its rails are no longer armed and submissions would not
     * wake it. */
    if (progress->loop_sleeps && !progress->armed)
        poller_wake(rdv->poller);
    progress_lock_give(&progress->lock);
}

bool progress_lock_take(struct rendezvous *rdv, uint64_t timeout_ns)
{
    struct progress *progress = rdv->progress;
    struct wait wait = {.timeout_ns = timeout_ns};
    if (progress_lock_try(&progress->lock))
        return true;
    /* relaxed: a hint to the holder; correctness rests on the waiters. */
    atomic_fetch_add_explicit(&progress->urgent, 1, memory_order_relaxed);
    poller_wake(rdv->poller);
    bool got = progress_lock_try(&progress->lock);
    while (!got && !wait_has_expired(&wait)) {
        progress_lock_wait(&progress->lock, &wait);
        got = progress_lock_try(&progress->lock);
    }
    atomic_fetch_sub_explicit(&progress->urgent, 1, memory_order_relaxed);
    return got;
}

bool progress_is_mine(const struct rendezvous *rdv)
{
    return progress_lock_is_mine(&rdv->progress->lock);
}

/* ---- driving ----------------------------------------------------------------------- */

/* Waiters are signalled before the next pass, or when the lock is released. */
int progress_pass(struct rendezvous *rdv)
{
    struct progress *progress = rdv->progress;
    int count = 0;
    if (progress->lock.wakeups_pending)
        progress_lock_wake(&progress->lock);
    if (progress->armed || ++progress->passes >= PASSES_PER_POLL) {
        progress->passes = 0;
        progress->armed = false;
        count += poller_run(rdv->poller, 0);
    }
    count += pass_run(rdv);
    progress->lock.wakeups_pending = count > 0;
    return count;
}

/* Return how long a driver may sleep; `armed` is the result of arming the rails. */
static uint64_t sleep_ns(struct rendezvous *rdv, uint64_t now_ns, uint64_t until_ns,
                         tryst_status armed)
{
    uint64_t next_ns = pass_next_ns(rdv);
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
static bool lock_is_wanted(const struct rendezvous *rdv)
{
    /* relaxed: a hint, which may arrive a pass later. */
    return atomic_load_explicit(&rdv->progress->urgent, memory_order_relaxed) != 0;
}

/* Arm the rails, and sleep on the descriptors until an event or the end of `wait`
 * (idle.h). The caller holds the lock. */
static void sleep_armed(struct rendezvous *rdv, struct wait *wait, struct idle *idle)
{
    uint64_t now_ns = clock_monotonic_ns();
    if (rdv->progress->lock.wakeups_pending)
        progress_lock_wake(&rdv->progress->lock);
    rendezvous_live_wait(rdv, wait->op, TRYST_LIVE_IN_WAIT, now_ns);
    tryst_status armed = pass_arm(rdv);
    if (idle_sleeps(idle, rdv->progress->spin_ns, armed) && !lock_is_wanted(rdv)) {
        poller_run(rdv->poller,
                   sleep_ns(rdv, now_ns, wait_until_ns(wait, now_ns), armed));
        rdv->progress->passes = 0;
    }
    pass_awake(rdv);
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
static bool drive_until(struct rendezvous *rdv, struct wait *wait)
{
    uint64_t spin_ns = rdv->progress->spin_ns;
    struct idle idle;
    uint32_t turns = 0;
    uint64_t clock_read_ns = 0;
    idle_begin(&idle, spin_ns);
    while (!wait->done(wait->arg) && !lock_is_wanted(rdv)) {
        if (progress_pass(rdv) > 0)
            idle_begin(&idle, spin_ns);
        else
            idle.passes++;
        if (idle.passes % PASSES_PER_YIELD == PASSES_PER_YIELD - 1)
            sched_yield();
        if (++turns < rdv->progress->clock_stride)
            continue;
        uint64_t now_ns = clock_monotonic_ns();
        if (clock_read_ns)
            rdv->progress->clock_stride = clock_stride(turns, now_ns - clock_read_ns);
        clock_read_ns = now_ns;
        turns = 0;
        if (now_ns >= wait_until_ns(wait, now_ns))
            break;
        if (idle_poll(&idle, now_ns)) {
            sleep_armed(rdv, wait, &idle);
            clock_read_ns = 0; /* the sleep does not count as passes */
        }
    }
    return wait->done(wait->arg);
}

bool progress_until(struct rendezvous *rdv, bool (*done)(void *arg), void *arg,
                    uint64_t timeout_ns)
{
    struct wait wait = {.done = done, .arg = arg, .timeout_ns = timeout_ns};
    return drive_until(rdv, &wait);
}

void progress_lock_pass(struct rendezvous *rdv)
{
    progress_lock_put(rdv);
    for (int i = 0;
         i < 1000 && lock_is_wanted(rdv) &&
         !atomic_load_explicit(&rdv->progress->lock.held, memory_order_relaxed);
         i++)
        sched_yield();
}

/* Drive, or sleep while another thread drives, until `wait` is done or over. */
static void await(struct rendezvous *rdv, struct wait *wait)
{
    while (!wait->done(wait->arg) && !wait_has_expired(wait)) {
        if (progress_lock_try(&rdv->progress->lock)) {
            drive_until(rdv, wait);
            progress_lock_pass(rdv);
        } else {
            progress_lock_wait(&rdv->progress->lock, wait);
        }
    }
}

/* Where the lock is free and the wait ends soon, the usual case, the clock is not
 * read. */
static void await_directly(struct rendezvous *rdv, struct wait *wait)
{
    bool wanted = true;
    if (wait->timeout_ns && progress_lock_try(&rdv->progress->lock)) {
        bool done = drive_until(rdv, wait);
        wanted = !done && lock_is_wanted(rdv);
        progress_lock_pass(rdv);
    }
    if (wanted)
        await(rdv, wait);
}

void progress_await(struct rendezvous *rdv, struct wait *wait)
{
    /* relaxed: a thread that starts now finds the lock taken. */
    bool displaces = wait->timeout_ns && atomic_load_explicit(&rdv->progress->thread.runs,
                                                              memory_order_relaxed);
    if (__builtin_expect(displaces, 0))
        progress_thread_displace(rdv);
    await_directly(rdv, wait);
    if (__builtin_expect(displaces, 0))
        progress_thread_resume(rdv);
}

/* ---- the program's loop ------------------------------------------------------------ */

/* Poll the descriptors, and let the engine read the clock, every POLL_NS: a program
 * that calls seldom must not need PASSES_PER_POLL calls to detect a death. */
static int poll_when_due(struct rendezvous *rdv)
{
    struct progress *progress = rdv->progress;
    uint64_t now_ns = clock_monotonic_ns();
    if (now_ns < progress->poll_at_ns)
        return 0;
    progress->poll_at_ns = now_ns + POLL_NS;
    progress->passes = 0;
    pass_clock_due(rdv);
    return poller_run(rdv->poller, 0);
}

/* Make one pass, and release the lock, which the caller took. */
static inline int turn(struct rendezvous *rdv)
{
    pass_awake(rdv);
    rdv->progress->loop_sleeps = false;
    int count = progress_pass(rdv);
    if (!count)
        count = poll_when_due(rdv);
    progress_lock_put(rdv);
    return count;
}

/* Make one pass. The recorder of steps gets the time as that of a wait. */
__attribute__((noinline)) static int turn_recorded(struct rendezvous *rdv)
{
    recorder_wait_begin(rdv->recorder);
    int count = turn(rdv);
    recorder_wait_end(rdv->recorder);
    return count;
}

int progress_turn(struct rendezvous *rdv)
{
    if (!progress_lock_try(&rdv->progress->lock))
        return 0;
    return __builtin_expect(!rdv->recorder, 1) ? turn(rdv) : turn_recorded(rdv);
}

tryst_status progress_arm(struct rendezvous *rdv)
{
    if (!progress_lock_try(&rdv->progress->lock))
        return TRYST_AGAIN;
    tryst_status status = pass_arm(rdv);
    if (status == TRYST_AGAIN) {
        progress_lock_put(rdv);
        return status;
    }
    uint64_t next_ns = pass_next_ns(rdv);
    uint64_t now_ns = clock_monotonic_ns();
    uint64_t nap_ns = now_ns + IDLE_NAP_NS;
    bool nap = status != TRYST_OK && (!next_ns || nap_ns < next_ns);
    poller_timer_set(rdv->poller, nap ? nap_ns : next_ns);
    rdv->progress->armed = true;
    rdv->progress->loop_sleeps = true;
    rendezvous_live_wait(rdv, NULL, TRYST_LIVE_ARMED, now_ns);
    /* Not progress_lock_put: submissions must still wake the descriptor. */
    progress_lock_give(&rdv->progress->lock);
    return TRYST_OK;
}
