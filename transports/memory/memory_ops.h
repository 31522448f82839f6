/* SPDX-License-Identifier: Apache-2.0 */
/** @file memory_ops.h
 *  Kinds of memory.
 *
 *  A *kind* is a table of functions, its memory ops. Host memory is built in
 *  (memory_host.c). A device's ops come in a module, which the layer above loads when a
 *  caller first needs that kind (transports/device.h) and publishes here.
 */
#ifndef TRYST_TRANSPORTS_MEMORY_MEMORY_OPS_H
#define TRYST_TRANSPORTS_MEMORY_MEMORY_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tryst/device.h"
#include "tryst/types.h"

/** Bytes of the largest text that describes devices, or the reason why there are none,
 *  with the terminator. */
#define MEMORY_TEXT_MAX 160

/** How a peer process opens a range of device memory. The struct is sent unchanged, and
 *  its receiver checks it before use. */
struct memory_ipc {
    uint32_t how; /**< enum memory_ipc_how */
    uint32_t reserved;
    uint64_t base;   /**< the exporter's address of the allocation that holds the range */
    uint64_t bytes;  /**< bytes of the allocation */
    uint64_t offset; /**< offset of the range in the allocation */
    uint8_t handle[64]; /**< the driver's handle; all zero for a descriptor */
};

enum memory_ipc_how {
    MEMORY_IPC_NONE = 0,
    MEMORY_IPC_LEGACY = 1,     /**< the driver's handle of a plain allocation */
    MEMORY_IPC_DESCRIPTOR = 2, /**< a descriptor, which is sent beside this struct */
    /** The driver's handle, valid between machines of one fabric. */
    MEMORY_IPC_FABRIC = 3
};

/** One kind of memory. Thread: any, for every function. The calling thread's current
 *  device context is unchanged afterwards. Functions that allocate, free, open, close,
 *  export or import may wait until the device has done its work: each driver decides. On
 *  the progress path, where a stream may be waiting for this library, copy_async and the
 *  functions on events and waits are called; the others only when a stream, an event, a
 *  slot, an export or an import is needed for the first time. `device` is an ordinal of
 *  this kind. Each function may return TRYST_E_INVALID (no such device), TRYST_E_SYSTEM
 *  (the device or its driver failed) and TRYST_E_UNSUPPORTED (this machine cannot do it);
 *  error_text has the reason. */
struct memory_ops {
    const char *name; /**< "host" */
    tryst_memory_kind kind;
    /** sizeof(struct memory_ops): a table of another size is refused */
    size_t struct_size;
    bool on_device; /**< the host must not touch the bytes */

    /** Count the devices; `text` (MEMORY_TEXT_MAX) names them, or gives the reason why
     *  there are none (TRYST_E_UNSUPPORTED). */
    tryst_status (*devices)(int32_t *count_p, char *text);
    /** Describe one device, without using it. The caller sets struct_size, memory and
     *  ordinal. */
    tryst_status (*describe)(int32_t device, tryst_device_info *info_p);
    /** Find the device that holds `data`. TRYST_OK, or TRYST_E_INVALID: not memory of
     *  this kind. (The host's ops accept every address: try them last.) */
    tryst_status (*locate)(const void *data, int32_t *device_p);

    /** Get the reason of this thread's last failed call: a sentence, valid until the next
     *  call that fails. "" for host. */
    const char *(*error_text)(void);

    /** Allocate `bytes`, aligned to a page (a device's: to 256 bytes). *fd_p receives a
     *  descriptor that maps the same bytes from offset 0 (sealed against shrinking), or
     *  -1. TRYST_OK, TRYST_E_NOMEM. */
    tryst_status (*alloc)(int32_t device, size_t bytes, void **data_p, int *fd_p);
    void (*free)(int32_t device, void *data, size_t bytes, int fd);
    /** Allocate host memory that all devices of this kind copy from and to directly.
     *  Aligned to a page. TRYST_OK, TRYST_E_NOMEM. */
    tryst_status (*pinned_alloc)(int32_t device, size_t bytes, void **data_p);
    void (*pinned_free)(int32_t device, void *data, size_t bytes);
    /** Pin host memory that exists, such as a region that peers map, as pinned_alloc's
     *  memory is. `data` is aligned to a page; no part of the range is pinned yet. The
     *  memory must stay until `unpin`. For host, nothing happens. */
    tryst_status (*pin)(int32_t device, void *data, size_t bytes);
    void (*unpin)(int32_t device, void *data, size_t bytes);

    /** Open a stream that waits for no other stream by itself. `urgent`: its work goes
     *  before that of plain streams. For host, *stream_p is NULL. */
    tryst_status (*stream_open)(int32_t device, bool urgent, void **stream_p);
    /** Close a stream; work that was queued in it still runs. */
    void (*stream_close)(int32_t device, void *stream);
    /** Queue a copy between any two of: pinned or other host memory, this device, another
     *  device of this kind. The caller must leave both ranges alone until the stream has
     *  done the copy. The call may wait if host memory is not pinned. For host, the copy
     *  is complete on return. */
    tryst_status (*copy_async)(int32_t device, void *stream, void *dst, const void *src,
                               size_t bytes);

    /** Open an event. Until it is recorded, it counts as passed. For host, *event_p is
     *  NULL, and the event has always passed. */
    tryst_status (*event_open)(int32_t device, void **event_p);
    void (*event_close)(int32_t device, void *event);
    /** Record the event: it passes when `stream` has done its earlier work. */
    tryst_status (*event_record)(int32_t device, void *stream, void *event);
    /** Poll the event: TRYST_OK (passed) or TRYST_IN_PROGRESS. */
    tryst_status (*event_query)(int32_t device, void *event);
    /** Make later work of `stream` wait for the event's latest record. */
    tryst_status (*stream_wait)(int32_t device, void *stream, void *event);
    /** Make later work of `stream` wait until (int32_t)(*word - value) >= 0. `word` is in
     *  pinned memory, is written with release, and must stay until the stream has passed.
     *  Host: TRYST_OK if the condition holds now, else TRYST_E_UNSUPPORTED. For this
     *  function and the next one, a stream that is being captured into a graph is
     *  TRYST_E_UNSUPPORTED. */
    tryst_status (*stream_wait_word)(int32_t device, void *stream, const uint32_t *word,
                                     uint32_t value);
    /** Let `stream` write `value` to `*word`, with release, when it has done its earlier
     *  work. `word` is in pinned memory, and must stay until then. For host, the word is
     *  written on return. */
    tryst_status (*stream_write_word)(int32_t device, void *stream, uint32_t *word,
                                      uint32_t value);

    /** Export a range to other processes of this machine. *fd_p receives a descriptor,
     *  which the caller must close, or -1. TRYST_E_UNSUPPORTED: this memory cannot be
     *  exported. (ipc_export, ipc_import and ipc_close are NULL for host: its regions are
     *  mapped by their descriptor.) */
    tryst_status (*ipc_export)(int32_t device, const void *data, size_t bytes,
                               struct memory_ipc *ipc_p, int *fd_p);
    /** Import another process's range for use on `device`. `fd` (-1: none came) stays the
     *  caller's. TRYST_E_INVALID: `ipc` is not valid. */
    tryst_status (*ipc_import)(int32_t device, const struct memory_ipc *ipc, int fd,
                               void **data_p);
    /** Undo an import, when nothing uses the range any more. */
    void (*ipc_close)(int32_t device, void *data, const struct memory_ipc *ipc);
};

/** A device, by handle (tryst/device.h): memory ops and an ordinal, so it needs no
 *  context and no lock. */
struct tryst_device {
    const struct memory_ops *ops;
    int32_t ordinal;
};

/** Get the memory ops of `kind`, or NULL where they are not published. Thread: any; costs
 *  one atomic load. */
const struct memory_ops *memory_ops_get(tryst_memory_kind kind);

/** Publish the memory ops of a kind, for the life of the process. Its driver and at least
 *  one device must have answered. Thread: any. */
void memory_ops_set(const struct memory_ops *ops);

#endif
