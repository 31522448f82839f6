/* SPDX-License-Identifier: Apache-2.0 */
/* Implements replay_memory.h. */
#include "replay_memory.h"

#include <stdlib.h>
#include <time.h>

#include "pipeline/base/memory.h"

/* Limit of a wait for the device: one action takes seconds at most. */
#define WAIT_MAX_NS   (600ull * 1000 * 1000 * 1000)
#define WAIT_PAUSE_NS 20000

static bool on_host(const struct replay_memory *self)
{
    return self->kind == TRYST_MEMORY_HOST;
}

static tryst_status device_open(struct replay_memory *self)
{
    void *loss = NULL;
    tryst_status status =
        tryst_device_open(self->ctx, self->kind, self->ordinal, &self->handle);
    if (status == TRYST_OK) {
        status = tryst_stream_open(self->handle, 0, &self->stream);
    }
    if (status == TRYST_OK) {
        status = tryst_event_open(self->handle, &self->done);
    }
    if (status == TRYST_OK) {
        status = tryst_pinned_alloc(self->handle, sizeof *self->loss, &loss);
    }
    self->loss = loss;
    return status;
}

tryst_status replay_memory_open(struct replay_memory *self, tryst_ctx *ctx,
                                const tryst_stage_info *info)
{
    *self =
        (struct replay_memory){.ctx = ctx, .kind = info->memory, .ordinal = info->device};
    if (on_host(self)) {
        self->loss = malloc(sizeof *self->loss);
        return self->loss ? TRYST_OK : TRYST_E_NOMEM;
    }
    return ctx ? device_open(self) : TRYST_E_INVALID;
}

void replay_memory_close(struct replay_memory *self)
{
    if (on_host(self)) {
        free(self->loss);
    } else if (self->handle) {
        tryst_pinned_free(self->handle, self->loss, sizeof *self->loss);
        tryst_event_close(self->handle, self->done);
        tryst_stream_close(self->handle, self->stream);
        tryst_device_close(self->handle);
    }
}

tryst_status replay_array_open(const struct replay_memory *memory, uint64_t bytes,
                               struct replay_array *array_p, struct replay_array *host_p)
{
    uint64_t least = bytes ? bytes : 1;
    if (on_host(memory)) {
        *array_p = (struct replay_array){.data = memory_alloc_aligned(least)};
        if (host_p) {
            host_p->data = array_p->data;
        }
        return array_p->data ? TRYST_OK : TRYST_E_NOMEM;
    }
    if (host_p) {
        host_p->data = memory_alloc_aligned(least);
        if (!host_p->data) {
            return TRYST_E_NOMEM;
        }
    }
    return tryst_mem_alloc(memory->ctx, least, memory->kind, memory->ordinal,
                           &array_p->data, &array_p->mem);
}

tryst_status replay_array_bring(const struct replay_memory *memory,
                                struct replay_array *array,
                                const struct replay_array *host, uint64_t bytes)
{
    if (!host->data || host->data == array->data) {
        return TRYST_OK;
    }
    tryst_status status =
        tryst_copy_async(memory->handle, memory->stream, array->data, host->data, bytes);
    if (status == TRYST_OK) {
        status = tryst_event_record(memory->handle, memory->stream, memory->done);
    }
    return status == TRYST_OK ? replay_memory_wait(memory) : status;
}

void replay_array_close(struct replay_array *array)
{
    if (array->mem) {
        tryst_mem_release(array->mem);
    } else {
        free(array->data);
    }
    *array = (struct replay_array){0};
}

void replay_array_host_close(const struct replay_array *array, struct replay_array *host)
{
    if (host->data != array->data) {
        replay_array_close(host);
    }
}

tryst_status replay_memory_wait(const struct replay_memory *memory)
{
    const struct timespec pause = {.tv_nsec = WAIT_PAUSE_NS};
    if (on_host(memory)) {
        return TRYST_OK;
    }
    uint64_t begin_ns = tryst_now_ns(memory->ctx);
    tryst_status status;
    while ((status = tryst_event_test(memory->handle, memory->done)) ==
           TRYST_IN_PROGRESS) {
        if (tryst_now_ns(memory->ctx) - begin_ns > WAIT_MAX_NS) {
            return TRYST_E_DEADLINE;
        }
        nanosleep(&pause, NULL);
    }
    return status;
}
