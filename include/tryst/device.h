/* SPDX-License-Identifier: Apache-2.0 */
/** @file device.h
 *  Devices with their own memory, for code that uses Tryst and no driver. Library:
 *  libtryst.
 *
 *  A device has *streams*, in which work is done in order, and *events*, which mark
 *  points in streams. Calls queue work and do not wait for it; the host tests an event
 *  (tryst_event_test), or another stream waits for the event. Streams and events are the
 *  driver's own (a CUstream, a CUevent), so the caller can queue its own kernels in the
 *  same streams. Opening and closing devices, streams and events may be slow, since the
 *  driver does it: not in a loop.
 *
 *      tryst_device_open(ctx, TRYST_MEMORY_CUDA, 0, &device, …)
 *        tryst_stream_open(device, 0, &stream)        tryst_event_open(device, &event)
 *        tryst_copy_async(device, stream, to, from, bytes)
 *        tryst_event_record(device, stream, event)
 *        tryst_event_test(device, event)              TRYST_IN_PROGRESS … TRYST_OK
 *
 *  With a handle of TRYST_MEMORY_HOST, copies are done at once, streams and events are
 *  NULL and every event has passed, so the same code works for host and device.
 *
 *  Streams that wait for operations (tryst_op_stream_wait). The first launch of a kernel
 *  may load it, and then holds the driver until all streams of the process idle; calls
 *  that allocate, pin or free may do the same. If a stream waits for an operation
 *  meanwhile, only operations end that need no call of the driver:
 *
 *  - A collective with all its device tensors on the stream's device. The calling
 *    thread queues all copies that are left of it, the last ones in the stream itself, so
 *    the operation is complete when the stream has done these. Sends and receives of
 *    device memory go on beside it. Still to avoid behind the wait, with calls that hold
 *    the driver: sends and receives of device memory, which stop in the driver, and with
 *    them all progress; and ranks with streams that wait for different collectives at a
 *    time in crossing orders.
 *  - Any other operation may hang where a call behind the wait holds the driver: a send
 *    or receive of device memory; a collective with tensors on another device, or with a
 *    ready event for host memory; a wait from a callback, or with a driver that cannot
 *    write words; and a wait that has to wait for its turn for 2 s: beside 16 others, or
 *    without room in TRYST_SHADOW_BYTES.
 *
 *  An operation that fails lets the stream go on, behind copies that were queued already
 *  and so behind the ready events of its tensors.
 *
 *  From tryst_stream_open on, `device` is an open handle, never NULL. `stream` and
 *  `event` were opened for that device.
 *
 *  Thread: any. A call leaves the calling thread's current device context as it was.
 *  Errors: TRYST_E_SYSTEM is the device's or its driver's failure; tryst_device_error has
 *  the driver's words.
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
    uint64_t bytes; /**< bytes of the device's memory, 0 unknown */
    /** free bytes now; 0 unknown: this process does not use the device yet */
    uint64_t bytes_free;
    int32_t version_major; /**< version of the code that the device runs: 9.0 is sm_90 */
    int32_t version_minor;
    char name[64];
    char bus_id[20]; /**< PCI address, "" unknown */
} tryst_device_info;

/** Count the devices of a kind in this process; `text` (may be NULL) receives their
 *  names, or the reason why there are none. Loads the module of that kind first.
 *  Returns: TRYST_OK, TRYST_E_UNSUPPORTED (no such kind, no module, no driver, no
 *           device), TRYST_E_MODULE, TRYST_E_INVALID, TRYST_E_FORKED */
TRYST_API tryst_status tryst_device_count(tryst_ctx *ctx, tryst_memory_kind memory,
                                          int32_t *count_p, char *text, size_t capacity);

/** Open a handle of one device. It may outlive the context.
 *  Owns:    the caller owns `*device_p` and closes it.
 *  Returns: as tryst_device_count; TRYST_E_INVALID for an ordinal out of range;
 *           TRYST_E_NOMEM. */
TRYST_API tryst_status tryst_device_open(tryst_ctx *ctx, tryst_memory_kind memory,
                                         int32_t ordinal, tryst_device **device_p);
/** Close a handle, after the streams and events that were opened with it. NULL is
 *  allowed. */
TRYST_API void tryst_device_close(tryst_device *device);

/** Describe a device. Takes none of its memory (the first use of a device does). Returns
 *  TRYST_OK, TRYST_E_INVALID, TRYST_E_SYSTEM */
TRYST_API tryst_status tryst_device_describe(const tryst_device *device,
                                             tryst_device_info *info_p);

/** Return why the calling thread's last failed call on a device of this kind failed: a
 *  sentence with the driver's own words, valid until the thread's next call that fails.
 *  "" for NULL. */
TRYST_API const char *tryst_device_error(const tryst_device *device);

/** Open a stream that does not wait for any other stream (not for the driver's default
 *  stream either). `urgent`: its work goes before that of other streams.
 *  Owns:    the caller closes `*stream_p`.
 *  Returns: TRYST_OK, TRYST_E_NOMEM (the device's), TRYST_E_SYSTEM */
TRYST_API tryst_status tryst_stream_open(const tryst_device *device, bool urgent,
                                         void **stream_p);
/** Close a stream; the work queued in it is still done. NULL is allowed. */
TRYST_API void tryst_stream_close(const tryst_device *device, void *stream);

/** Open an event; it counts as passed until it is recorded.
 *  Owns:    the caller closes `*event_p`.
 *  Returns: TRYST_OK, TRYST_E_NOMEM (the device's), TRYST_E_SYSTEM */
TRYST_API tryst_status tryst_event_open(const tryst_device *device, void **event_p);
/** Close an event. NULL is allowed. */
TRYST_API void tryst_event_close(const tryst_device *device, void *event);
/** Record an event: it passes when `stream` has done the work queued so far. Returns
 *  TRYST_OK, TRYST_E_INVALID, TRYST_E_SYSTEM */
TRYST_API tryst_status tryst_event_record(const tryst_device *device, void *stream,
                                          void *event);
/** Test whether an event has passed. Never waits.
 *  Returns: TRYST_OK (it has), TRYST_IN_PROGRESS, TRYST_E_SYSTEM */
TRYST_API tryst_status tryst_event_test(const tryst_device *device, void *event);
/** Make work that is queued in `stream` from here on wait for the event's latest record.
 *  The host does not wait. Returns TRYST_OK, TRYST_E_INVALID, TRYST_E_SYSTEM */
TRYST_API tryst_status tryst_stream_wait(const tryst_device *device, void *stream,
                                         void *event);

/** Copy between any two of this device's memory, that of another device of its kind, and
 *  host memory (if it is not pinned, the call may take as long as the copy). Leave both
 *  ranges alone until the stream has done the copy. Returns TRYST_OK, TRYST_E_INVALID,
 *  TRYST_E_SYSTEM */
TRYST_API tryst_status tryst_copy_async(const tryst_device *device, void *stream,
                                        void *to, const void *from, size_t bytes);

/** Allocate host memory that the device copies from and to directly; aligned to a page.
 *  Returns: TRYST_OK, TRYST_E_NOMEM, TRYST_E_SYSTEM */
TRYST_API tryst_status tryst_pinned_alloc(const tryst_device *device, size_t bytes,
                                          void **data_p);
/** Free memory of tryst_pinned_alloc. NULL is allowed. */
TRYST_API void tryst_pinned_free(const tryst_device *device, void *data, size_t bytes);

TRYST_END_DECLS

#endif
