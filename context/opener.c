/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts of foreign code, each in a separate thread (opener.h).
 *
 * Invariant: once the state is LEFT, the thread touches nothing of the context.
 */
#include "opener.h"

#include <errno.h>

#include "context.h"
#include "rendezvous/progress/submission.h"
#include "rendezvous/rendezvous.h"

/* Write a log line for the foreign code of an opener, and for the rails that it
 * opened (tryst_host.log). */
static void opener_log(const struct tryst_host *host, tryst_log_level level,
                       const char *text)
{
    struct opener *opener = container_of(host->log_arg, struct opener, log);
    pthread_mutex_lock(&opener->mutex);
    if (opener->state != OPENER_LEFT && !thread_exits())
        LOG_AT(&opener->log, level, "%s", text);
    pthread_mutex_unlock(&opener->mutex);
}

static void submission_run(struct rendezvous *rdv, struct submission *submission)
{
    struct opener *opener = container_of(submission, struct opener, submission);
    (void)rdv;
    opener->taken = true;
    opener->ops->ended(opener);
}

tryst_status opener_init(struct opener *opener, const struct opener_ops *ops,
                         const char *name, const tryst_ctx *ctx)
{
    tryst_status status = config_copy(ctx->config, &opener->config);
    if (status != TRYST_OK)
        return status;
    if (pthread_mutex_init(&opener->mutex, NULL) != 0)
        goto close_config;
    if (thread_cond_open(&opener->wake) != 0)
        goto close_mutex;
    opener->ops = ops;
    opener->name = name;
    opener->submission.run = submission_run;
    opener->rdv = ctx->rdv;
    opener->log = ctx->log;
    opener->begin_ns = clock_monotonic_ns();
    module_host_init(&opener->host, opener->config, &opener->log);
    opener->host.log = opener_log;
    rendezvous_host_fill(ctx->rdv, &opener->host);
    return TRYST_OK;
close_mutex:
    pthread_mutex_destroy(&opener->mutex);
close_config:
    config_close(opener->config);
    return TRYST_E_SYSTEM;
}

void opener_run(struct opener *opener)
{
    opener->ops->run(opener);
    opener->spent_ns = clock_since_ns(opener->begin_ns, clock_monotonic_ns());
}

bool opener_stops(struct opener *opener)
{
    pthread_mutex_lock(&opener->mutex);
    bool stops = opener->state == OPENER_LEFT || thread_exits();
    pthread_mutex_unlock(&opener->mutex);
    thread_exit_watch();
    return stops;
}

static void opener_main(void *arg)
{
    struct opener *opener = arg;
    opener_run(opener);
    pthread_mutex_lock(&opener->mutex);
    bool left = opener->state == OPENER_LEFT;
    if (!left) {
        opener->state = OPENER_ENDED;
        rendezvous_queue(opener->rdv, &opener->submission);
        pthread_cond_broadcast(&opener->wake);
    }
    pthread_mutex_unlock(&opener->mutex);
    if (left)
        opener->ops->undo(opener);
}

tryst_status opener_start(struct opener *opener)
{
    struct thread_params params = {
        .run = opener_main, .arg = opener, .name = opener->name, .log = &opener->log};
    opener->state = OPENER_RUNS;
    opener->has_thread = thread_open(&opener->thread, &params) == 0;
    if (opener->has_thread)
        return TRYST_OK;
    opener->state = OPENER_NEW;
    return TRYST_E_SYSTEM;
}

bool opener_pending(const struct opener *opener)
{
    return opener->has_thread && !opener->taken;
}

void opener_wait(struct opener *opener, uint64_t until_ns)
{
    struct timespec at = timespec_of(until_ns);
    pthread_mutex_lock(&opener->mutex);
    while (opener->state == OPENER_RUNS &&
           pthread_cond_timedwait(&opener->wake, &opener->mutex, &at) != ETIMEDOUT)
        continue;
    pthread_mutex_unlock(&opener->mutex);
}

bool opener_leave(struct opener *opener)
{
    pthread_mutex_lock(&opener->mutex);
    bool leaves = opener->state == OPENER_RUNS;
    if (leaves) {
        opener->state = OPENER_LEFT;
        pthread_detach(opener->thread.id);
    }
    pthread_mutex_unlock(&opener->mutex);
    return leaves;
}

void opener_close(struct opener *opener)
{
    /* After LEFT the caller is the opener's thread, which is detached. */
    if (opener->has_thread && opener->state == OPENER_LEFT)
        thread_leave();
    else if (opener->has_thread)
        pthread_join(opener->thread.id, NULL);
    pthread_cond_destroy(&opener->wake);
    pthread_mutex_destroy(&opener->mutex);
    config_close(opener->config);
}
