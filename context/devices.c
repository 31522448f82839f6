/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The start of a device's driver (devices.h).
 *
 * Idea: the first tensor on a device may load a module and start a driver, which takes
 * seconds where no other program holds the devices open. So the operation is held
 * (rendezvous/protocol/op_device.h), and tryst_send returns.
 *
 * Invariant: `start` is not NULL while the thread runs, and until a pass has taken the
 * result. `start` changes under the lock, since submissions of any thread read it.
 */
#include "devices.h"

#include "context.h"
#include "core/memory/alloc.h"
#include "opener.h"
#include "rendezvous/progress/progress.h"
#include "rendezvous/rendezvous.h"
#include "transports/device.h"
#include "transports/memory/memory_ops.h"

struct devices_start {
    struct opener opener;
    tryst_ctx *ctx; /**< not for the thread */
    tryst_memory_kind kind;
    int32_t device;
    tryst_status status;
    char text[MEMORY_TEXT_MAX];
};

/* Load the module and the driver, and create an event: the first event of a device
 * creates the device's context, which takes long, too. */
static void start_run(struct opener *opener)
{
    struct devices_start *start = container_of(opener, struct devices_start, opener);
    const struct memory_ops *ops;
    void *event;
    start->status = memory_ops_load(&opener->host, start->kind, &ops, start->text);
    if (start->status == TRYST_OK && ops->event_open(start->device, &event) == TRYST_OK)
        ops->event_close(start->device, event);
}

static void start_free(struct devices_start *start)
{
    opener_close(&start->opener);
    mem_free(start);
}

static void start_undo(struct opener *opener)
{
    start_free(container_of(opener, struct devices_start, opener));
}

static void start_ended(struct opener *opener)
{
    struct devices_start *start = container_of(opener, struct devices_start, opener);
    struct devices *devices = &start->ctx->wiring->devices;
    pthread_mutex_lock(&devices->lock);
    devices->start = NULL;
    pthread_mutex_unlock(&devices->lock);
    if (opener->spent_ns > OPENER_SLOW_NS)
        LOG_WARN(&start->ctx->log, "the driver of device memory took %.1f s to start",
                 (double)opener->spent_ns / 1e9);
    rendezvous_device_started(start->ctx->rdv, start->kind, start->status, start->text);
    start_free(start);
}

static const struct opener_ops start_ops = {start_run, start_ended, start_undo};

/* Start the thread. TRYST_OK: the thread cannot be created, so the caller starts the
 * driver itself. The caller holds the lock. */
static tryst_status start_begin(tryst_ctx *ctx, tryst_memory_kind kind, int32_t device)
{
    struct devices_start *start = mem_zalloc(sizeof *start);
    if (!start || opener_init(&start->opener, &start_ops, "the driver of device memory",
                              ctx) != TRYST_OK) {
        mem_free(start);
        return TRYST_E_NOMEM;
    }
    start->ctx = ctx;
    start->kind = kind;
    start->device = device;
    if (opener_start(&start->opener) != TRYST_OK) {
        start_free(start);
        return TRYST_OK;
    }
    ctx->wiring->devices.start = start;
    return TRYST_IN_PROGRESS;
}

tryst_status devices_start(tryst_ctx *ctx, tryst_memory_kind kind, int32_t device)
{
    struct devices *devices = &ctx->wiring->devices;
    tryst_status status = TRYST_IN_PROGRESS;
    char text[MEMORY_TEXT_MAX];
    if (memory_ops_get(kind))
        return TRYST_OK;
    pthread_mutex_lock(&devices->lock);
    if (!devices->start)
        status = device_kind_find(&ctx->wiring->host, kind, text)
                     ? start_begin(ctx, kind, device)
                     : TRYST_OK; /* no module: the caller reports the reason */
    pthread_mutex_unlock(&devices->lock);
    return status;
}

void devices_settle(tryst_ctx *ctx)
{
    struct devices *devices = &ctx->wiring->devices;
    struct devices_start *start = devices->start;
    if (!start)
        return;
    opener_wait(&start->opener,
                clock_monotonic_ns() + config_time_ns(ctx->config, CONFIG_PEER_TIMEOUT));
    if (opener_leave(&start->opener)) {
        LOG_WARN(&ctx->log, "the context closes while the driver of device memory still "
                            "starts; a thread stays behind until the start ends");
        devices->start = NULL;
    } else if (progress_lock_take(ctx->rdv, NS_PER_S)) {
        (void)progress_pass(ctx->rdv);
        progress_lock_put(ctx->rdv);
    }
}
