/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The courier: a thread that sees to it that what the engine holds back leaves although no thread is
 * in the engine.
 *
 * Idea: where small tensors are answered promptly, their DONEs stay for the answer when the waiting
 * thread leaves the library (rendezvous/ride.c). Should that thread then compute, or wait for the
 * same peer in another library, nobody would be left to send them. So the engine calls the courier,
 * which beats every COURIER_NS for as long as there is anything to carry, and rests otherwise. It is
 * made at the first call: a program that never plays ping-pong has no such thread.
 *
 *            courier_call                     rendezvous_courier says enough
 *   none ──────────────────▶ beats ◀────────────────────────▶ rests
 *                                           courier_call
 *
 * Invariant: `called` changes only under the progress role (and `lock`), together with the engine's
 * courier_is_called; so no call is lost between "enough" and the rest. A beat that finds the role
 * taken is left out: whoever holds it sees to the same (ride_beat).
 * Callers: context.c, rendezvous/ride.c (through rendezvous_params).
 */
#include <time.h>

#include "context.h"
#include "rendezvous/rendezvous.h"

tryst_status courier_open(tryst_ctx *ctx)
{
    struct courier *courier = &ctx->courier;
    pthread_condattr_t attr;
    if (pthread_mutex_init(&courier->lock, NULL) != 0)
        return TRYST_E_SYSTEM;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    int rc = pthread_cond_init(&courier->wake, &attr);
    pthread_condattr_destroy(&attr);
    if (rc != 0)
        pthread_mutex_destroy(&courier->lock);
    return rc == 0 ? TRYST_OK : TRYST_E_SYSTEM;
}

void courier_close(tryst_ctx *ctx)
{
    struct courier *courier = &ctx->courier;
    pthread_mutex_lock(&courier->lock);
    courier->stop = true;
    pthread_cond_signal(&courier->wake);
    bool runs = courier->runs;
    pthread_mutex_unlock(&courier->lock);
    if (runs)
        pthread_join(courier->thread, NULL);
    pthread_cond_destroy(&courier->wake);
    pthread_mutex_destroy(&courier->lock);
}

static void beat(tryst_ctx *ctx)
{
    struct courier *courier = &ctx->courier;
    if (!progress_enter(ctx))
        return;
    if (!rendezvous_courier(ctx->rdv)) {
        pthread_mutex_lock(&courier->lock);
        courier->called = false;
        pthread_mutex_unlock(&courier->lock);
    }
    progress_leave(ctx);
}

/** Until the next beat, or as long as nobody calls. With the lock. */
static void rest(struct courier *courier)
{
    uint64_t at_ns = clock_monotonic_ns() + COURIER_NS;
    struct timespec at = {.tv_sec = (time_t)(at_ns / NS_PER_S),
                          .tv_nsec = (long)(at_ns % NS_PER_S)};
    int rc = 0;
    while (!courier->stop && (rc == 0 || !courier->called))
        rc = courier->called ? pthread_cond_timedwait(&courier->wake, &courier->lock, &at)
                             : pthread_cond_wait(&courier->wake, &courier->lock);
}

static void *courier_main(void *arg)
{
    tryst_ctx *ctx = arg;
    struct courier *courier = &ctx->courier;
    trace_thread_name(ctx->trace, "courier");
    pthread_mutex_lock(&courier->lock);
    while (!courier->stop) {
        rest(courier);
        pthread_mutex_unlock(&courier->lock);
        beat(ctx);
        pthread_mutex_lock(&courier->lock);
    }
    pthread_mutex_unlock(&courier->lock);
    return NULL;
}

bool courier_call(void *arg)
{
    tryst_ctx *ctx = arg;
    struct courier *courier = &ctx->courier;
    pthread_mutex_lock(&courier->lock);
    if (!courier->runs)
        courier->runs = thread_create_blocked(&courier->thread, courier_main, ctx) == 0;
    courier->called = courier->runs;
    pthread_cond_signal(&courier->wake);
    pthread_mutex_unlock(&courier->lock);
    return courier->called;
}
