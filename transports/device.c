/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tryst/device.h: the memory ops of a device, by handle. This file alone names the
 * modules of memory kinds.
 *
 * Idea: a handle is memory ops and an ordinal, so it needs no context and no lock.
 * Invariant: memory ops are published (memory_ops_set) only after their driver and at
 * least one device have answered.
 */
#include "transports/device.h"
#include "core/text/refuse.h"
#include "tryst/tryst.h"

#include <stdio.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "transports/module_load.h"
#include "tryst/device.h"
#include "tryst/sized.h"

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
        (void)snprintf(text, MEMORY_TEXT_MAX,
                       "not a valid memory kind: %d (0 host, 1 CUDA)", (int)kind);
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

/* Return `status`. If it is an error, report that `call` failed, with the driver's
 * text. */
static tryst_status result(const tryst_device *device, const char *call,
                           tryst_status status)
{
    if (status == TRYST_OK || status == TRYST_IN_PROGRESS)
        return status;
    const char *words = device->ops->error_text();
    return refuse(status, "cannot %s on %s device %d: %s", call, device->ops->name,
                  (int)device->ordinal, *words ? words : tryst_status_str(status));
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
    if (status != TRYST_OK)
        return refuse(status, "cannot count the devices of kind %d: %s", (int)kind,
                      words[0] ? words : tryst_status_str(status));
    return status;
}

tryst_status device_open(const struct tryst_host *host, tryst_memory_kind kind,
                         int32_t ordinal, struct tryst_device **device_p)
{
    int32_t count;
    tryst_status status = device_count(host, kind, &count, NULL, 0);
    if (status != TRYST_OK)
        return status;
    if (ordinal < 0 || ordinal >= count)
        return refuse(
            TRYST_E_INVALID,
            "cannot open device %d: not a valid device number (this kind has %d, from 0)",
            (int)ordinal, (int)count);
    struct tryst_device *device = mem_zalloc(sizeof *device);
    if (!device)
        return refuse_nomem("open a device");
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
        return refuse_null("describe a device", device ? "info_p" : "device");
    if (!tryst_sized_is_set(info_p))
        return refuse_unsized("describe a device", "info_p");
    tryst_device_info info = {.struct_size = sizeof info,
                              .memory = device->ops->kind,
                              .ordinal = device->ordinal};
    tryst_status status = device->ops->describe(device->ordinal, &info);
    if (status == TRYST_OK)
        (void)tryst_sized_write(info_p, &info, sizeof info);
    return result(device, "describe the device", status);
}

const char *tryst_device_error(const tryst_device *device)
{
    return device ? device->ops->error_text() : "";
}

tryst_status tryst_stream_open(const tryst_device *device, bool urgent, void **stream_p)
{
    if (!device)
        return refuse_null("open a stream", "device");
    return result(device, "open a stream",
                  device->ops->stream_open(device->ordinal, urgent, stream_p));
}

void tryst_stream_close(const tryst_device *device, void *stream)
{
    if (device && stream)
        device->ops->stream_close(device->ordinal, stream);
}

tryst_status tryst_event_open(const tryst_device *device, void **event_p)
{
    if (!device)
        return refuse_null("open an event", "device");
    return result(device, "open an event",
                  device->ops->event_open(device->ordinal, event_p));
}

void tryst_event_close(const tryst_device *device, void *event)
{
    if (device && event)
        device->ops->event_close(device->ordinal, event);
}

tryst_status tryst_event_record(const tryst_device *device, void *stream, void *event)
{
    if (!device)
        return refuse_null("record an event", "device");
    return result(device, "record an event",
                  device->ops->event_record(device->ordinal, stream, event));
}

tryst_status tryst_event_test(const tryst_device *device, void *event)
{
    if (!device)
        return refuse_null("test an event", "device");
    return result(device, "test an event",
                  device->ops->event_query(device->ordinal, event));
}

tryst_status tryst_stream_wait(const tryst_device *device, void *stream, void *event)
{
    if (!device)
        return refuse_null("let a stream wait", "device");
    return result(device, "let a stream wait",
                  device->ops->stream_wait(device->ordinal, stream, event));
}

tryst_status tryst_copy_async(const tryst_device *device, void *stream, void *to,
                              const void *from, size_t bytes)
{
    if (!device)
        return refuse_null("copy", "device");
    return result(device, "copy",
                  device->ops->copy_async(device->ordinal, stream, to, from, bytes));
}

tryst_status tryst_pinned_alloc(const tryst_device *device, size_t bytes, void **data_p)
{
    if (!device)
        return refuse_null("allocate pinned memory", "device");
    return result(device, "allocate pinned memory",
                  device->ops->pinned_alloc(device->ordinal, bytes, data_p));
}

void tryst_pinned_free(const tryst_device *device, void *data, size_t bytes)
{
    if (device && data)
        device->ops->pinned_free(device->ordinal, data, bytes);
}
