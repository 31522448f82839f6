/* SPDX-License-Identifier: Apache-2.0 */
/** @file device.h
 *  Devices that have memory of their own, for code that sees Tryst and no driver.
 *  Library: libtryst.
 *
 *  A device has *streams*, in which work is done in order, and *events*, which mark places in them.
 *  Work is queued and not waited for; whoever must know asks an event (tryst_event_test), or lets
 *  another stream wait for it. Streams and events are the driver's own (a CUstream, a CUevent), so
 *  kernels of the caller's go into the same ones. To open and to close devices, streams and events is the
 *  driver's own work, and it may take its time for that: not in a loop.
 *
 *      tryst_device_open(ctx, TRYST_MEMORY_CUDA, 0, &device, …)
 *        tryst_stream_open(device, 0, &stream)        tryst_event_open(device, &event)
 *        tryst_copy_async(device, stream, to, from, bytes)
 *        tryst_event_record(device, stream, event)
 *        tryst_event_test(device, event)              TRYST_IN_PROGRESS … TRYST_OK
 *
 *  Where a handle is TRYST_MEMORY_HOST's, copies are done at once, streams and events are NULL and
 *  every event has passed: code over this header need not tell the two apart.
 *
 *  From tryst_stream_open on, `device` is an open handle, never NULL. `stream` and `event` are what was
 *  opened for that device.
 *
 *  Thread: any. The calling thread's current device context is afterwards what it was.
 *  Errors: TRYST_E_SYSTEM is the device's or its driver's failure; tryst_device_error has its words.
 */
#ifndef TRYST_DEVICE_H
#define TRYST_DEVICE_H

#include <stdbool.h>
#include <tryst/types.h>

TRYST_BEGIN_DECLS

/** One device. */
typedef struct tryst_device tryst_device;

typedef struct tryst_device_info {
    size_t struct_size;
    tryst_memory_kind memory;
    int32_t ordinal;
    uint64_t bytes;        /**< of its memory, 0 unknown */
    uint64_t bytes_free;   /**< just now, 0 unknown: this process does not use it yet */
    int32_t version_major; /**< what code it runs: 9.0 is sm_90 */
    int32_t version_minor;
    char name[64];
    char bus_id[20]; /**< PCI address, "" unknown */
} tryst_device_info;

/** How many devices of a kind this process sees; `text` (may be NULL) names them, or says why there
 *  are none. What drives them is loaded first.
 *  Returns: TRYST_OK, TRYST_E_UNSUPPORTED (no such kind, no module, no driver, no device),
 *  TRYST_E_MODULE, TRYST_E_INVALID, TRYST_E_FORKED */
TRYST_API tryst_status tryst_device_count(tryst_ctx *ctx, tryst_memory_kind memory,
                                          int32_t *count_p, char *text, size_t capacity);

/** Open a handle of one device. It may outlive the context.
 *  Owns:    the caller owns `*device_p` and closes it.
 *  Returns: as tryst_device_count; TRYST_E_INVALID for an ordinal out of range; TRYST_E_NOMEM. */
TRYST_API tryst_status tryst_device_open(tryst_ctx *ctx, tryst_memory_kind memory,
                                         int32_t ordinal, tryst_device **device_p);
/** NULL is allowed. What was opened with it is closed before. */
TRYST_API void tryst_device_close(tryst_device *device);

/** What it is. Takes none of its memory, as first use does. TRYST_OK, TRYST_E_INVALID, TRYST_E_SYSTEM */
TRYST_API tryst_status tryst_device_describe(const tryst_device *device,
                                             tryst_device_info *info_p);

/** Why the calling thread's last call that failed on a device of this kind did: a sentence with the
 *  driver's own words, valid until its next one that fails. "" for NULL. */
TRYST_API const char *tryst_device_error(const tryst_device *device);

/** A stream that waits for no other by itself. `urgent`: its work goes before that of
 *  others.
 *  Owns:    the caller closes `*stream_p`.
 *  Returns: TRYST_OK, TRYST_E_NOMEM (the device's), TRYST_E_SYSTEM */
TRYST_API tryst_status tryst_stream_open(const tryst_device *device, bool urgent,
                                         void **stream_p);
/** What is queued in it still happens. NULL is allowed. */
TRYST_API void tryst_stream_close(const tryst_device *device, void *stream);

/** An event; it has passed until it is recorded.
 *  Owns:    the caller closes `*event_p`.
 *  Returns: TRYST_OK, TRYST_E_NOMEM (the device's), TRYST_E_SYSTEM */
TRYST_API tryst_status tryst_event_open(const tryst_device *device, void **event_p);
/** NULL is allowed. */
TRYST_API void tryst_event_close(const tryst_device *device, void *event);
/** It passes when `stream` has done what was queued before. TRYST_OK, TRYST_E_INVALID, TRYST_E_SYSTEM */
TRYST_API tryst_status tryst_event_record(const tryst_device *device, void *stream,
                                          void *event);
/** Has it passed? Never waits.
 *  Returns: TRYST_OK (it has), TRYST_IN_PROGRESS, TRYST_E_SYSTEM */
TRYST_API tryst_status tryst_event_test(const tryst_device *device, void *event);
/** What is queued in `stream` from here on waits for the event's latest record. The host does not wait.
 *  TRYST_OK, TRYST_E_INVALID, TRYST_E_SYSTEM */
TRYST_API tryst_status tryst_stream_wait(const tryst_device *device, void *stream,
                                         void *event);

/** Copy in any direction: this device's memory, another's of its kind, the host's (pinned, or it
 *  costs the caller time). Both are left alone until the stream has come so far.
 *  TRYST_OK, TRYST_E_INVALID, TRYST_E_SYSTEM */
TRYST_API tryst_status tryst_copy_async(const tryst_device *device, void *stream,
                                        void *to, const void *from, size_t bytes);

/** Host memory that the device copies from and to without a detour; aligned to a page.
 *  Returns: TRYST_OK, TRYST_E_NOMEM, TRYST_E_SYSTEM */
TRYST_API tryst_status tryst_pinned_alloc(const tryst_device *device, size_t bytes,
                                          void **data_p);
/** NULL is allowed. */
TRYST_API void tryst_pinned_free(const tryst_device *device, void *data, size_t bytes);

TRYST_END_DECLS

#endif
