/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tryst/device.h: a device's row of memory functions, by handle; and the one place that names the modules
 * of memory kinds.
 *
 * Idea: a handle is a row and an ordinal, nothing else, so it needs no context and no lock. Invariant: a row
 * is made known (memory_ops_set) when its driver and at least one device have answered.
 * Callers: users; the memory cache and operations on device tensors (memory_ops_load); the context opens
 * handles (device_count, device_open), since it has the host table that a module is loaded with.
 */
#include "transports/device.h"

#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "transports/module_load.h"
#include "tryst/device.h"

static const char *kind_module(tryst_memory_kind kind)
{
    return kind == TRYST_MEMORY_CUDA ? "cuda" : NULL;
}

bool device_kind_find(const struct tryst_host *host, tryst_memory_kind kind, char *text)
{
    return kind_module(kind) && module_find(host, kind_module(kind), text);
}

tryst_status memory_ops_load(const struct tryst_host *host, tryst_memory_kind kind,
                             const struct memory_ops **ops_p, char *text)
{
    const struct memory_ops *ops = memory_ops_get(kind);
    int32_t count;
    if (!ops && !kind_module(kind)) {
        (void)snprintf(text, MEMORY_TEXT_MAX, "there is no memory of kind %d", (int)kind);
        return TRYST_E_UNSUPPORTED;
    }
    tryst_status status =
        ops ? TRYST_OK : module_load_memory(host, kind_module(kind), &ops, text);
    if (status == TRYST_OK)
        status = ops->devices(&count, text);
    if (status != TRYST_OK)
        return status;
    memory_ops_set(ops);
    *ops_p = ops;
    return TRYST_OK;
}

tryst_status device_count(const struct tryst_host *host, tryst_memory_kind kind,
                          int32_t *count_p, char *text, size_t capacity)
{
    char words[MEMORY_TEXT_MAX] = "";
    const struct memory_ops *ops;
    tryst_status status = memory_ops_load(host, kind, &ops, words);
    if (status == TRYST_OK)
        status = ops->devices(count_p, words);
    if (text && capacity)
        (void)snprintf(text, capacity, "%s", words);
    return status;
}

tryst_status device_open(const struct tryst_host *host, tryst_memory_kind kind,
                         int32_t ordinal, struct tryst_device **device_p, char *error,
                         size_t capacity)
{
    int32_t count;
    tryst_status status = device_count(host, kind, &count, error, capacity);
    if (status != TRYST_OK)
        return status;
    if (ordinal < 0 || ordinal >= count) {
        if (error && capacity)
            (void)snprintf(error, capacity,
                           "there is no device %d: %d of that kind, from 0", (int)ordinal,
                           (int)count);
        return TRYST_E_INVALID;
    }
    struct tryst_device *device = mem_zalloc(sizeof *device);
    if (!device)
        return TRYST_E_NOMEM;
    device->ops = memory_ops_get(kind);
    device->ordinal = ordinal;
    *device_p = device;
    return TRYST_OK;
}

void tryst_device_close(tryst_device *device)
{
    mem_free(device);
}

tryst_status tryst_device_describe(const tryst_device *device, tryst_device_info *info_p)
{
    if (!device || !info_p)
        return TRYST_E_INVALID;
    tryst_device_info info = {.struct_size = sizeof info,
                              .memory = device->ops->kind,
                              .ordinal = device->ordinal};
    tryst_status status = device->ops->describe(device->ordinal, &info);
    if (status == TRYST_OK)
        *info_p = info;
    return status;
}

const char *tryst_device_error(const tryst_device *device)
{
    return device ? device->ops->error_text() : "";
}

tryst_status tryst_stream_open(const tryst_device *device, int urgent, void **stream_p)
{
    return device->ops->stream_open(device->ordinal, urgent != 0, stream_p);
}

void tryst_stream_close(const tryst_device *device, void *stream)
{
    if (stream)
        device->ops->stream_close(device->ordinal, stream);
}

tryst_status tryst_event_open(const tryst_device *device, void **event_p)
{
    return device->ops->event_open(device->ordinal, event_p);
}

void tryst_event_close(const tryst_device *device, void *event)
{
    if (event)
        device->ops->event_close(device->ordinal, event);
}

tryst_status tryst_event_record(const tryst_device *device, void *stream, void *event)
{
    return device->ops->event_record(device->ordinal, stream, event);
}

tryst_status tryst_event_test(const tryst_device *device, void *event)
{
    return device->ops->event_query(device->ordinal, event);
}

tryst_status tryst_stream_wait(const tryst_device *device, void *stream, void *event)
{
    return device->ops->stream_wait(device->ordinal, stream, event);
}

tryst_status tryst_copy_async(const tryst_device *device, void *stream, void *to,
                              const void *from, size_t bytes)
{
    return device->ops->copy_async(device->ordinal, stream, to, from, bytes);
}

tryst_status tryst_pinned_alloc(const tryst_device *device, size_t bytes, void **data_p)
{
    return device->ops->pinned_alloc(device->ordinal, bytes, data_p);
}

void tryst_pinned_free(const tryst_device *device, void *data, size_t bytes)
{
    if (data)
        device->ops->pinned_free(device->ordinal, data, bytes);
}
