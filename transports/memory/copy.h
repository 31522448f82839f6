/* SPDX-License-Identifier: Apache-2.0 */
/** @file copy.h
 *  Asynchronous copies from and to devices.
 *
 *  Idea: a copy is queued on a stream of the owner, with an event behind it, and progress
 *  polls the event. Each device has two streams, one per direction, so that neither waits
 *  for the other.
 *
 *  Domain: one owner, which calls all of it from one thread at a time; `done` runs only
 *  inside copies_poll.
 */
#ifndef TRYST_TRANSPORTS_MEMORY_COPY_H
#define TRYST_TRANSPORTS_MEMORY_COPY_H

#include <stdbool.h>

#include "core/memory/list.h"
#include "transports/memory/memory.h"

/** Longest sleep between two polls while a copy is under way. (A copy on an idle stream
 *  takes some 3 us, and a poll about 1 us.) */
#define COPY_NAP_NS UINT64_C(50000)

enum copy_way {
    COPY_OUT, /**< from a device to host memory */
    COPY_IN,  /**< into a device, from host memory or another device */
    COPY_WAYS
};

/** One copy, embedded in the caller's object, which must stay from copies_start until
 *  `done`. Fill in the first block, zero the rest. */
struct copy {
    /** Called once. TRYST_OK: the bytes are in place. Any other status (usually
     *  TRYST_E_SYSTEM; the memory ops have the text): the copy failed. In both cases the
     *  device does not touch the bytes any more. `done` may start another copy, and free
     *  this one. */
    void (*done)(struct copy *copy, tryst_status status);
    const struct memory_ops *memory; /**< memory ops of the device */
    int32_t device;
    uint8_t way; /**< enum copy_way */
    void *dst;
    const void *src;
    size_t bytes; /**< 0: only wait for `ready` */
    void *ready;  /**< event of the device that must pass before the copy; or NULL */

    struct list_node node; /**< private to copy.c from here on */
    struct copy_event *event;
    tryst_status status;
    uint32_t fails;
    bool begun, queued, recorded;
    bool recorded_at_once;
};

/** One owner's copies. */
struct copies {
    struct list homes;   /**< struct copy_home: one per device */
    struct list waiting; /**< copies that wait for their `ready` */
    struct list ended;   /**< copies that have ended: `done` is due */
    uint32_t count;      /**< copies that were started, and not withdrawn or done */
};

void copies_init(struct copies *copies);
/** Close the streams and events. All copies must be done. */
void copies_end(struct copies *copies);
/** Open the device's streams ahead of its first copies, as far as that succeeds. */
void copies_prepare(struct copies *copies, const struct memory_ops *memory,
                    int32_t device);
void copies_start(struct copies *copies, struct copy *copy);
/** Withdraw a copy that still waits for `ready`; its `done` is then not called. False:
 *  the copy has begun, and `done` follows. */
bool copies_drop(struct copies *copies, struct copy *copy);
/** Poll the events and call `done` of the copies that have ended; returns their
 *  number. */
int copies_poll(struct copies *copies);
/** True if the device does not touch the bytes of a copy without `ready` any more. False
 *  is also possible after that. Thread: any, between copies_start and the first line of
 *  `done`, if the caller excludes the owner's calls that start and end the copy. */
bool copy_has_ended(const struct copy *copy);

#endif
