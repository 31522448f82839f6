/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registered memory, devices and pools, in the public API: the context's registration cache and host
 * table, handed to the layer that has them.
 * Callers: users.
 */
#include "transports/memory/memory.h"
#include "context.h"
#include "rendezvous/rendezvous.h"
#include "rendezvous/submission.h"
#include "transports/device.h"
#include "transports/memory/memory_pool.h"
#include "tryst/device.h"
#include "tryst/pool.h"

/** Whether a call with arguments that are right, or not, may go on. */
static tryst_status call_check(const tryst_ctx *ctx, bool right)
{
    return ctx && right ? rendezvous_usable(ctx->rdv) : TRYST_E_INVALID;
}

/* ---- memory ------------------------------------------------------------------------------- */

tryst_status tryst_mem_register(tryst_ctx *ctx, void *data, size_t bytes,
                                tryst_memory_kind memory, int32_t device,
                                tryst_mem **mem_p)
{
    tryst_status status = call_check(ctx, data && bytes && mem_p);
    return status == TRYST_OK
               ? memory_register(ctx->wiring->memory, data, bytes, memory, device, mem_p)
               : status;
}

tryst_status tryst_mem_alloc(tryst_ctx *ctx, size_t bytes, tryst_memory_kind memory,
                             int32_t device, void **data_p, tryst_mem **mem_p)
{
    tryst_status status = call_check(ctx, bytes && data_p && mem_p);
    if (status == TRYST_OK)
        status = memory_alloc(ctx->wiring->memory, bytes, memory, device, mem_p);
    if (status == TRYST_OK)
        *data_p = (*mem_p)->data;
    return status;
}

void tryst_mem_release(tryst_mem *mem)
{
    if (mem)
        memory_release(mem);
}

/* ---- devices ------------------------------------------------------------------------------ */

tryst_status tryst_device_count(tryst_ctx *ctx, tryst_memory_kind memory,
                                int32_t *count_p, char *text, size_t capacity)
{
    tryst_status status = call_check(ctx, count_p);
    return status == TRYST_OK
               ? device_count(&ctx->wiring->host, memory, count_p, text, capacity)
               : status;
}

tryst_status tryst_device_open(tryst_ctx *ctx, tryst_memory_kind memory, int32_t ordinal,
                               tryst_device **device_p, char *error, size_t capacity)
{
    tryst_status status = call_check(ctx, device_p);
    return status == TRYST_OK ? device_open(&ctx->wiring->host, memory, ordinal, device_p,
                                            error, capacity)
                              : status;
}

tryst_status tryst_pool_open(tryst_ctx *ctx, const tryst_pool_params *params,
                             tryst_pool **pool_p, char *error, size_t capacity)
{
    tryst_status status = call_check(ctx, params && pool_p);
    return status == TRYST_OK
               ? memory_pool_open(ctx->wiring->memory, params, pool_p, error, capacity)
               : status;
}
