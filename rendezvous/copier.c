/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The copier's thread, and how other threads reach it.
 *
 * Idea: a mailbox. copier_add, copier_raise and copier_cancel change the range and put it
 * into the mailbox, under the lock. The thread empties the mailbox, and then works on its
 * own state without the lock, so a caller never waits while the driver does.
 * (copier_streams.c polls and queues; this file waits and reports.)
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
 * Invariant: the lock is never held during a call of the driver, of `moved` or of the
 * pool of shadows.
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

/* The kernel may delay each sleep by this much. (Its default of 50 us is longer than the
 * naps between polls.) */
enum { TIMER_SLACK_NS = 1000 };

struct copier {
    struct copier_params params;
    pthread_mutex_t lock; /* guards the members up to `thread` */
    pthread_cond_t wake;
    struct list mail; /* ranges with changes for the thread */
    bool runs;        /* the thread exists */
    bool stop;        /* the thread ends, or has ended because the process exits */
    struct thread thread;
    struct copier_streams streams; /* the thread's */
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
    copier->params = *params;
    list_init(&copier->mail);
    copier_streams_open(&copier->streams);
    *copier_p = copier;
    return TRYST_OK;
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
    assert(list_empty(&copier->mail));
    pthread_cond_destroy(&copier->wake);
    pthread_mutex_destroy(&copier->lock);
    mem_free(copier);
}

/* ---- the thread -------------------------------------------------------------------- */

/* Wait for mail, at most until `until_ns`, and take the mail. False: the thread ends. */
static bool mail_take(struct copier *copier, uint64_t until_ns)
{
    struct timespec at = timespec_of(until_ns);
    struct list_node *node;
    int rc = 0;
    pthread_mutex_lock(&copier->lock);
    while (list_empty(&copier->mail) && !copier->stop && rc == 0)
        rc = until_ns == UINT64_MAX
                 ? pthread_cond_wait(&copier->wake, &copier->lock)
                 : pthread_cond_timedwait(&copier->wake, &copier->lock, &at);
    while ((node = list_pop_front(&copier->mail)) != NULL)
        copier_streams_update(&copier->streams,
                              container_of(node, struct copier_range, mail));
    bool goes_on = !copier->stop;
    pthread_mutex_unlock(&copier->lock);
    return goes_on;
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

static void copier_main(void *arg)
{
    struct copier *copier = arg;
    uint64_t next_ns = UINT64_MAX;
    trace_thread_name(copier->params.trace, "copier");
    (void)prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS);
    while (mail_take(copier, next_ns)) {
        uint64_t now_ns = clock_monotonic_ns();
        next_ns = copier_streams_poll(&copier->streams, now_ns);
        reports_deliver(copier);
        shadows_pin(copier->params.shadows, copier_streams_idle(&copier->streams),
                    now_ns);
    }
    if (thread_exits()) /* the driver may be gone; the process ends anyway */
        return;
    copier_streams_close(&copier->streams);
    shadows_unpin(copier->params.shadows);
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
