/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The copier's thread, and how other threads reach it.
 *
 * Idea: a mailbox. copier_add, copier_raise and copier_cancel change the range and put it
 * into the mailbox, under the lock. The thread empties the mailbox, and then works on the
 * streams without the lock, so a caller never waits while the driver does.
 * (copier_streams.c polls and queues; this file waits and reports.) A second mutex,
 * `turn`, guards the streams: the thread holds it while it works, and a thread that takes
 * ranges in between (copier_hold), which never waits for it.
 *
 * Order of memory: the lock orders everything but `done`. A caller writes bytes to host
 * memory, then calls copier_add or copier_raise; the thread takes the range from the
 * mailbox later, and queues the copy of these bytes after that. In the other direction
 * the device writes bytes to host memory, then its event passes; the thread polls the
 * event, and after that stores `done` with release. A reader that loads `done` with
 * acquire, or that `moved` has signalled, sees these bytes. The outcome of a range is
 * written before its last `moved`. The copier does not touch the range after the start of
 * that call: the range is in no list, and copier_raise and copier_cancel read `ended`
 * under the lock before they put a range into the mailbox.
 *
 * Invariants: the lock is never held during a call of the driver, of `moved` or of the
 * pool of shadows. Where both mutexes are held, `turn` was taken first. No report is
 * undelivered while `turn` is free.
 */
#include "copier.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sys/prctl.h>

#include "copier_streams.h"
#include "core/log/trace.h"
#include "core/memory/alloc.h"
#include "core/thread/thread.h"
#include "shadows.h"
#include "takeover.h"

/* The kernel may delay each sleep by this much. (Its default of 50 us is longer than the
 * naps between polls.) */
enum { TIMER_SLACK_NS = 1000 };

struct copier {
    struct copier_params params;
    pthread_mutex_t lock; /* guards the members up to `thread` */
    pthread_cond_t wake;
    struct list mail; /* ranges with changes for the thread */
    bool is_due;      /* another thread has taken mail: the thread has work */
    bool runs;        /* the thread exists */
    bool stop;        /* the thread ends, or has ended because the process exits */
    struct thread thread;
    pthread_mutex_t turn; /* guards the members below */
    struct copier_streams streams;
    struct takeovers takeovers;
};

tryst_status copier_open(const struct copier_params *params, struct copier **copier_p)
{
    struct copier *copier = mem_zalloc(sizeof *copier);
    if (!copier)
        return TRYST_E_NOMEM;
    if (thread_cond_open(&copier->wake) != 0) {
        mem_free(copier);
        return TRYST_E_SYSTEM;
    }
    (void)pthread_mutex_init(&copier->lock, NULL);
    (void)pthread_mutex_init(&copier->turn, NULL);
    copier->params = *params;
    list_init(&copier->mail);
    copier_streams_open(&copier->streams);
    takeovers_open(&copier->takeovers, params->closed);
    *copier_p = copier;
    return TRYST_OK;
}

static void driver_leave(struct copier *copier)
{
    copier_streams_close(&copier->streams);
    takeovers_close(&copier->takeovers);
    shadows_unpin(copier->params.shadows);
}

void copier_close(struct copier *copier)
{
    if (!copier)
        return;
    pthread_mutex_lock(&copier->lock);
    copier->stop = true;
    pthread_cond_signal(&copier->wake);
    pthread_mutex_unlock(&copier->lock);
    if (copier->runs)
        pthread_join(copier->thread.id, NULL);
    else /* threads that prepared for gates may have called the driver */
        driver_leave(copier);
    assert(list_empty(&copier->mail));
    pthread_cond_destroy(&copier->wake);
    pthread_mutex_destroy(&copier->lock);
    pthread_mutex_destroy(&copier->turn);
    mem_free(copier);
}

/* ---- the thread -------------------------------------------------------------------- */

/* True if the thread goes on: it is not to stop, or what was taken has not ended. The
 * caller holds the lock. */
static bool thread_goes_on(const struct copier *copier, bool is_idle)
{
    return !copier->stop || ((!is_idle || !list_empty(&copier->mail)) && !thread_exits());
}

/* Wait for mail, at most until `until_ns`. False: the thread ends. */
static bool mail_wait(struct copier *copier, uint64_t until_ns, bool is_idle)
{
    struct timespec at = timespec_of(until_ns);
    int rc = 0;
    pthread_mutex_lock(&copier->lock);
    while (list_empty(&copier->mail) && !copier->is_due &&
           thread_goes_on(copier, is_idle) && rc == 0)
        rc = until_ns == UINT64_MAX
                 ? pthread_cond_wait(&copier->wake, &copier->lock)
                 : pthread_cond_timedwait(&copier->wake, &copier->lock, &at);
    bool goes_on = thread_goes_on(copier, is_idle && !copier->is_due);
    copier->is_due = false;
    pthread_mutex_unlock(&copier->lock);
    return goes_on;
}

/* Take the mail. The caller holds `turn`. */
static void mail_take(struct copier *copier)
{
    struct list_node *node;
    pthread_mutex_lock(&copier->lock);
    while ((node = list_pop_front(&copier->mail)) != NULL)
        copier_streams_update(&copier->streams,
                              container_of(node, struct copier_range, mail));
    pthread_mutex_unlock(&copier->lock);
}

/* Make a range's end known to callers of copier_raise and copier_cancel. */
static void range_close(struct copier *copier, struct copier_range *range)
{
    pthread_mutex_lock(&copier->lock);
    range->ended = true;
    (void)list_remove(&range->mail);
    pthread_mutex_unlock(&copier->lock);
}

static void reports_deliver(struct copier *copier)
{
    struct list_node *node;
    while ((node = list_pop_front(&copier->streams.reports)) != NULL) {
        struct copier_range *range = container_of(node, struct copier_range, report);
        if (range->state == COPIER_ENDED)
            range_close(copier, range);
        range->moved(range);
    }
}

/* Work on the streams. Return when to do so again; `*idle_p`: no range is left, and no
 * copy is in flight. */
static uint64_t turn_run(struct copier *copier, bool *idle_p)
{
    pthread_mutex_lock(&copier->turn);
    mail_take(copier);
    uint64_t now_ns = clock_monotonic_ns();
    uint64_t next_ns = copier_streams_poll(&copier->streams, now_ns);
    reports_deliver(copier);
    bool is_idle = copier_streams_idle(&copier->streams);
    if (!takeovers_closed(&copier->takeovers))
        shadows_pin(copier->params.shadows, is_idle, now_ns);
    *idle_p = is_idle && copier->streams.ranges == 0;
    pthread_mutex_unlock(&copier->turn);
    return next_ns;
}

static void copier_main(void *arg)
{
    struct copier *copier = arg;
    uint64_t next_ns = UINT64_MAX;
    bool is_idle = true;
    trace_thread_name(copier->params.trace, "copier");
    (void)prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS);
    while (mail_wait(copier, next_ns, is_idle))
        next_ns = turn_run(copier, &is_idle);
    if (thread_exits()) /* the driver may be gone; the process ends anyway */
        return;
    driver_leave(copier);
}

/* Stop the thread at the exit of the process, unless the lock is taken: the exit then
 * calls again. */
static void copier_stop(void *arg)
{
    struct copier *copier = arg;
    if (pthread_mutex_trylock(&copier->lock) != 0)
        return;
    copier->stop = true;
    pthread_cond_signal(&copier->wake);
    pthread_mutex_unlock(&copier->lock);
}

/* Create the thread unless it exists. The caller holds the lock. */
static tryst_status copier_run(struct copier *copier)
{
    struct thread_params params = {.run = copier_main,
                                   .stop = copier_stop,
                                   .arg = copier,
                                   .name = "the copier",
                                   .log = copier->params.log};
    int reason = copier->runs ? 0 : thread_open(&copier->thread, &params);
    copier->runs = reason == 0;
    if (reason == 0)
        return TRYST_OK;
    return reason == ENOMEM ? TRYST_E_NOMEM : TRYST_E_SYSTEM;
}

/* ---- any thread -------------------------------------------------------------------- */

/* Put a range into the mailbox. The caller holds the lock. */
static void mail_put(struct copier *copier, struct copier_range *range)
{
    if (list_linked(&range->mail))
        return;
    list_push_back(&copier->mail, &range->mail);
    pthread_cond_signal(&copier->wake);
}

tryst_status copier_add(struct copier *copier, struct copier_range *range)
{
    pthread_mutex_lock(&copier->lock);
    tryst_status status = copier_run(copier);
    if (status == TRYST_OK)
        mail_put(copier, range);
    pthread_mutex_unlock(&copier->lock);
    return status;
}

void copier_raise(struct copier *copier, struct copier_range *range, uint64_t limit)
{
    pthread_mutex_lock(&copier->lock);
    if (!range->ended && limit > range->limit) {
        range->limit = limit;
        mail_put(copier, range);
    }
    pthread_mutex_unlock(&copier->lock);
}

void copier_urge(struct copier *copier, struct copier_range *range,
                 const struct urgency *urgency)
{
    pthread_mutex_lock(&copier->lock);
    if (!range->ended) {
        range->wanted = *urgency;
        range->is_urged = true;
        mail_put(copier, range);
    }
    pthread_mutex_unlock(&copier->lock);
}

void copier_cancel(struct copier *copier, struct copier_range *range)
{
    pthread_mutex_lock(&copier->lock);
    if (!range->ended && !range->is_canceled) {
        range->is_canceled = true;
        mail_put(copier, range);
    }
    pthread_mutex_unlock(&copier->lock);
}

/* ---- a thread that takes ranges ---------------------------------------------------- */

bool copier_hold(struct copier *copier)
{
    if (pthread_mutex_trylock(&copier->turn) != 0)
        return false;
    mail_take(copier);
    reports_deliver(copier);
    return true;
}

void copier_release(struct copier *copier)
{
    pthread_mutex_unlock(&copier->turn);
    pthread_mutex_lock(&copier->lock);
    copier->is_due = true;
    pthread_cond_signal(&copier->wake);
    pthread_mutex_unlock(&copier->lock);
}

tryst_status copier_streams_prepare(struct copier *copier, const struct memory_ops *ops,
                                    int32_t device)
{
    return streams_prepare(&copier->streams, ops, device);
}

bool copier_may_take(struct copier *copier, struct copier_range *range)
{
    return streams_may_take(&copier->streams, range);
}

void copier_take(struct copier *copier, struct copier_range *range)
{
    streams_take(&copier->streams, range);
    reports_deliver(copier);
}

struct takeovers *copier_takeovers(struct copier *copier)
{
    return &copier->takeovers;
}
