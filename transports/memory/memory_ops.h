/* SPDX-License-Identifier: Apache-2.0 */
/** @file memory_ops.h
 *  Kinds of memory.
 *
 *  A *kind* is a row of functions: host memory is built in (memory_host.c), a device's row comes in
 *  a module, which the layer above loads when it is first asked for (transports/device.h) and
 *  makes known here.
 */
#ifndef TRANSPORTS_MEMORY_OPS_H
#define TRANSPORTS_MEMORY_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tryst/device.h"
#include "tryst/types.h"

/** Largest text that describes devices, or why there are none, with its terminator. */
#define MEMORY_TEXT_MAX 160

/** How a peer process reaches a range of device memory. It travels as it is; whoever gets it
 *  checks it before use. */
struct memory_ipc {
    uint32_t how; /**< enum memory_ipc_how */
    uint32_t reserved;
    uint64_t base;   /**< the exporter's address of the allocation that holds the range */
    uint64_t bytes;  /**< of that allocation */
    uint64_t offset; /**< of the range in it */
    uint8_t handle[64]; /**< the driver's, empty for a descriptor */
};

enum memory_ipc_how {
    MEMORY_IPC_NONE = 0,
    MEMORY_IPC_LEGACY = 1,     /**< the driver's handle of a plain allocation */
    MEMORY_IPC_DESCRIPTOR = 2, /**< a descriptor travels beside it */
    MEMORY_IPC_FABRIC = 3 /**< the driver's handle, good between machines of one fabric */
};

/** One kind of memory. Any thread calls any of these. The calling thread's current device context
 *  is afterwards what it was. What allocates, frees, opens, closes, exports or imports may wait
 *  until the device has done what it was given, as its driver likes: on the progress path, where
 *  a stream may be waiting for us, only copy_async and what is about events and waits is called.
 *  `device` is an ordinal of this kind; one that does not exist is TRYST_E_INVALID. A failure of
 *  the device or its driver is TRYST_E_SYSTEM; TRYST_E_UNSUPPORTED is for what this machine
 *  cannot. error_text says more. */
struct memory_ops {
    const char *name; /**< "host" */
    tryst_memory_kind kind;
    /** sizeof(struct memory_ops): another one is refused */
    size_t struct_size;
    bool on_device; /**< the host must not touch the bytes */

    /** How many devices there are; `text` (MEMORY_TEXT_MAX) names them, or says why there
     *  are none (TRYST_E_UNSUPPORTED). */
    tryst_status (*devices)(int32_t *count_p, char *text);
    /** What one device is (struct_size, memory and ordinal are the caller's); makes no use of it. */
    tryst_status (*describe)(int32_t device, tryst_device_info *info_p);
    /** TRYST_OK when `data` is of this kind, else TRYST_E_INVALID. (To the host's row
     *  everything is: ask it last.) */
    tryst_status (*locate)(const void *data, int32_t *device_p);

    /** Why the last call of this thread that failed did: a sentence, valid until the next one
     *  that fails. "" for host. */
    const char *(*error_text)(void);

    /** Allocate `bytes`, aligned to a page (a device's: to 256 bytes); *fd_p receives a descriptor that maps the
     *  same bytes from offset 0 (sealed against shrinking), or -1. TRYST_OK,
     *  TRYST_E_NOMEM. */
    tryst_status (*alloc)(int32_t device, size_t bytes, void **data_p, int *fd_p);
    void (*free)(int32_t device, void *data, size_t bytes, int fd);
    /** Host memory that all devices of this kind copy from and to without a detour. Aligned to
     *  a page. TRYST_OK, TRYST_E_NOMEM. */
    tryst_status (*pinned_alloc)(int32_t device, size_t bytes, void **data_p);
    void (*pinned_free)(int32_t device, void *data, size_t bytes);

    /** A stream of ours: it waits for no other stream by itself. `urgent`: its work goes before
     *  that of plain streams. For host, *stream_p is NULL. */
    tryst_status (*stream_open)(int32_t device, bool urgent, void **stream_p);
    /** What was queued in it still happens. */
    void (*stream_close)(int32_t device, void *stream);
    /** Copy in any direction: pinned or other host memory, this device, another of this kind.
     *  The call itself may wait for a copy from or to host memory that is not pinned.
     *  Both are left alone until the stream has come so far; complete on return for host. */
    tryst_status (*copy_async)(int32_t device, void *stream, void *dst, const void *src,
                               size_t bytes);

    /** An event: it has passed until it is recorded. For host, *event_p is NULL, and it always
     *  has. */
    tryst_status (*event_open)(int32_t device, void **event_p);
    void (*event_close)(int32_t device, void *event);
    /** It passes when `stream` has done what was queued before. */
    tryst_status (*event_record)(int32_t device, void *stream, void *event);
    /** TRYST_OK or TRYST_IN_PROGRESS. */
    tryst_status (*event_query)(int32_t device, void *event);
    /** What is queued in `stream` from here on waits for the event's latest record. */
    tryst_status (*stream_wait)(int32_t device, void *stream, void *event);
    /** What is queued in `stream` from here on waits until (int32_t)(*word - value) >= 0.
     *  `word` is pinned, is written with release, and stays until then. Host: TRYST_OK when
     *  that is so now, else TRYST_E_UNSUPPORTED. */
    tryst_status (*stream_wait_word)(int32_t device, void *stream, const uint32_t *word,
                                     uint32_t value);

    /** The three are NULL for host, whose regions are mapped by their descriptor.
     *  Offer a range to other processes of this machine. *fd_p receives a descriptor of the
     *  caller's, or -1. TRYST_E_UNSUPPORTED: this memory cannot be offered. */
    tryst_status (*ipc_export)(int32_t device, const void *data, size_t bytes,
                               struct memory_ipc *ipc_p, int *fd_p);
    /** Make another process's range usable here, on `device`. `fd` stays the caller's.
     *  TRYST_E_INVALID: not such an offer. */
    tryst_status (*ipc_import)(int32_t device, const struct memory_ipc *ipc, int fd,
                               void **data_p);
    /** Undo it, when nothing uses the range any more. */
    void (*ipc_close)(int32_t device, void *data, const struct memory_ipc *ipc);
};

/** A device, by handle (tryst/device.h): a row and a number, so it needs no context and no lock. */
struct tryst_device {
    const struct memory_ops *ops;
    int32_t ordinal;
};

/** The row of `kind`, or NULL where it is not known. Any thread, costs a load. */
const struct memory_ops *memory_ops_get(tryst_memory_kind kind);

/** Make the row of its kind known, for good: its driver and at least one device have answered. Any
 *  thread. */
void memory_ops_set(const struct memory_ops *ops);

#endif
