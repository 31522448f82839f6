/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The acknowledgement timer: a thread that sends the acknowledgements which the last
 * thread delayed when it left the library.
 *
 * Idea: where two ranks exchange small tensors, a thread that leaves the library delays
 * an acknowledgement, so that the next tensor to the same peer carries it (pass.c).
 * If the thread computes instead, the timer thread sends the acknowledgement after
 * TRYST_ACK_DELAY, as TCP's delayed acknowledgement does (RFC 1122). The timer thread is
 * created at the first call, ticks until several ticks in a row had nothing to send, and
 * sleeps then: a program without ping-pong has no such thread.
 *
 *            ack_timer_call           acks_send returns false
 *   none ──────────────────▶ ticks ─────────────────────────────▶ sleeps
 *     ▲                        ▲                                    │
 *     │                        └───────── ack_timer_call ───────────┤
 *     └───────────────────────────────────── ack_timer_stop ────────┘
 *
 * The close of a group ends the thread: tryst_group_open works on the engine without the
 * progress lock, so between two groups no thread of the library may enter it.
 *
 * Invariant: `called` changes only under the progress lock (and `mutex`), together with
 * the engine's acks.timer_runs. So no call is lost between the last tick and the sleep. A
 * tick that finds the progress lock taken does nothing: the thread that holds the lock
 * sends the acknowledgements.
 */
#include "pass.h"
#include "progress.h"
#include "rendezvous/op/engine.h"

tryst_status ack_timer_open(struct ack_timer *timer, uint64_t delay_ns)
{
    timer->delay_ns = delay_ns;
    if (pthread_mutex_init(&timer->mutex, NULL) != 0)
        return TRYST_E_SYSTEM;
    if (thread_cond_open(&timer->wake) == 0)
        return TRYST_OK;
    pthread_mutex_destroy(&timer->mutex);
    return TRYST_E_SYSTEM;
}

void ack_timer_stop(struct rendezvous *rdv)
{
    struct ack_timer *timer = &rdv->progress->ack_timer;
    pthread_mutex_lock(&timer->mutex);
    timer->stop = true;
    pthread_cond_signal(&timer->wake);
    bool runs = timer->runs;
    pthread_mutex_unlock(&timer->mutex);
    if (runs)
        pthread_join(timer->thread.id, NULL);
    timer->runs = timer->called = timer->stop = false;
}

void ack_timer_close(struct ack_timer *timer)
{
    pthread_cond_destroy(&timer->wake);
    pthread_mutex_destroy(&timer->mutex);
}

static void timer_run(struct rendezvous *rdv)
{
    struct ack_timer *timer = &rdv->progress->ack_timer;
    if (!progress_lock_try(&rdv->progress->lock))
        return;
    if (!acks_send(rdv)) {
        pthread_mutex_lock(&timer->mutex);
        timer->called = false;
        pthread_mutex_unlock(&timer->mutex);
    }
    progress_lock_give(&rdv->progress->lock);
}

/* Sleep until ack_timer_call, then for the delay. The caller holds `mutex`. */
static void timer_wait(struct ack_timer *timer)
{
    while (!timer->stop && !timer->called)
        pthread_cond_wait(&timer->wake, &timer->mutex);
    struct timespec at = timespec_of(clock_monotonic_ns() + timer->delay_ns);
    for (int rc = 0; !timer->stop && rc == 0;)
        rc = pthread_cond_timedwait(&timer->wake, &timer->mutex, &at);
}

static void timer_main(void *arg)
{
    struct rendezvous *rdv = arg;
    struct ack_timer *timer = &rdv->progress->ack_timer;
    trace_thread_name(rdv->trace, "acknowledgements");
    pthread_mutex_lock(&timer->mutex);
    while (!timer->stop) {
        timer_wait(timer);
        pthread_mutex_unlock(&timer->mutex);
        timer_run(rdv);
        pthread_mutex_lock(&timer->mutex);
    }
    pthread_mutex_unlock(&timer->mutex);
}

/* Stop the thread at the exit of the process, unless `mutex` is taken: the exit then
 * calls again. */
static void timer_stop(void *arg)
{
    struct rendezvous *rdv = arg;
    struct ack_timer *timer = &rdv->progress->ack_timer;
    if (pthread_mutex_trylock(&timer->mutex) != 0)
        return;
    timer->stop = true;
    pthread_cond_signal(&timer->wake);
    pthread_mutex_unlock(&timer->mutex);
}

/* Create the thread. The caller holds `mutex`. */
static bool timer_start(struct rendezvous *rdv)
{
    struct thread_params params = {.run = timer_main,
                                   .stop = timer_stop,
                                   .arg = rdv,
                                   .name = "the acknowledgement timer",
                                   .log = rdv->log};
    return thread_open(&rdv->progress->ack_timer.thread, &params) == 0;
}

bool ack_timer_call(struct rendezvous *rdv)
{
    struct ack_timer *timer = &rdv->progress->ack_timer;
    if (!timer->delay_ns)
        return false;
    pthread_mutex_lock(&timer->mutex);
    if (!timer->runs)
        timer->runs = timer_start(rdv);
    bool called = timer->called = timer->runs && !timer->stop;
    pthread_cond_signal(&timer->wake);
    pthread_mutex_unlock(&timer->mutex);
    return called;
}
