/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public calls for registered memory, devices and pools: each checks its arguments
 * and calls the transports' layer with the context's registration cache or host table.
 */
#include "transports/memory/memory.h"
#include "context.h"
#include "core/text/refuse.h"
#include "rendezvous/progress/submission.h"
#include "rendezvous/rendezvous.h"
#include "transports/device.h"
#include "transports/memory/memory_pool.h"
#include "tryst/device.h"
#include "tryst/pool.h"

/* Check that `call` may run. `missing` is the name of an argument that is NULL or
 * zero; NULL: there is none. */
static tryst_status call_check(const tryst_ctx *ctx, const char *call,
                               const char *missing)
{
    if (!ctx || missing)
        return refuse(TRYST_E_INVALID, "cannot %s: %s is NULL or zero", call,
                      ctx ? missing : "ctx");
    tryst_status status = rendezvous_usable(ctx->rdv);
    return status == TRYST_OK ? status : refuse_unusable(call, status);
}

/* Return `status`, with a text for tryst_last_error if it is an error. */
static tryst_status memory_result(tryst_status status, const char *call, size_t bytes,
                                  tryst_memory_kind memory, int32_t device)
{
    if (status == TRYST_OK)
        return status;
    return refuse(status, "cannot %s %zu bytes of memory kind %d, device %d: %s", call,
                  bytes, (int)memory, (int)device, tryst_status_str(status));
}

/* ---- memory ------------------------------------------------------------------------ */

tryst_status tryst_mem_register(tryst_ctx *ctx, void *data, size_t bytes,
                                tryst_memory_kind memory, int32_t device,
                                tryst_mem **mem_p)
{
    tryst_status status = call_check(ctx, "register memory",
                                     !data    ? "data"
                                     : !bytes ? "bytes"
                                     : !mem_p ? "mem_p"
                                              : NULL);
    if (status != TRYST_OK)
        return status;
    status = memory_register(ctx->wiring->memory, data, bytes, memory, device, mem_p);
    return memory_result(status, "register", bytes, memory, device);
}

tryst_status tryst_mem_alloc(tryst_ctx *ctx, size_t bytes, tryst_memory_kind memory,
                             int32_t device, void **data_p, tryst_mem **mem_p)
{
    tryst_status status = call_check(ctx, "allocate memory",
                                     !bytes    ? "bytes"
                                     : !data_p ? "data_p"
                                     : !mem_p  ? "mem_p"
                                               : NULL);
    if (status != TRYST_OK)
        return status;
    status = memory_alloc(ctx->wiring->memory, bytes, memory, device, mem_p);
    if (status == TRYST_OK)
        *data_p = (*mem_p)->data;
    return memory_result(status, "allocate", bytes, memory, device);
}

void tryst_mem_release(tryst_mem *mem)
{
    if (mem)
        memory_release(mem);
}

/* ---- devices ----------------------------------------------------------------------- */

tryst_status tryst_device_count(tryst_ctx *ctx, tryst_memory_kind memory,
                                int32_t *count_p, char *text, size_t capacity)
{
    tryst_status status = call_check(ctx, "count devices", count_p ? NULL : "count_p");
    return status == TRYST_OK
               ? device_count(&ctx->wiring->host, memory, count_p, text, capacity)
               : status;
}

tryst_status tryst_device_open(tryst_ctx *ctx, tryst_memory_kind memory, int32_t ordinal,
                               tryst_device **device_p)
{
    tryst_status status = call_check(ctx, "open a device", device_p ? NULL : "device_p");
    return status == TRYST_OK ? device_open(&ctx->wiring->host, memory, ordinal, device_p)
                              : status;
}

tryst_status tryst_pool_open(tryst_ctx *ctx, const tryst_pool_params *params,
                             tryst_pool **pool_p)
{
    tryst_status status = call_check(ctx, "open a pool",
                                     !params   ? "params"
                                     : !pool_p ? "pool_p"
                                               : NULL);
    return status == TRYST_OK ? memory_pool_open(ctx->wiring->memory, params, pool_p)
                              : status;
}
