/* SPDX-License-Identifier: Apache-2.0 */
/** @file copy.h
 *  Copies from and to devices that nobody waits for.
 *
 *  Idea: a copy is queued on a stream of ours with an event behind it, and whoever makes progress
 *  asks the event. Each device has two streams, one per direction, so that neither waits for the
 *  other.
 *
 *  Domain: one owner, who calls all of it from one thread at a time; `done` runs inside
 *  copies_poll alone.
 */
#ifndef TRANSPORTS_COPY_H
#define TRANSPORTS_COPY_H

#include <stdbool.h>

#include "core/memory/list.h"
#include "transports/memory/memory.h"

/** While a copy is under way, who sleeps looks again after this long: some 3 µs go by on a stream
 *  with nothing else to do, and a look costs about 1 µs. */
#define COPY_NAP_NS UINT64_C(50000)

enum copy_way {
    COPY_OUT, /**< from a device to host memory */
    COPY_IN,  /**< into a device, from host memory or another device */
    COPY_WAYS
};

/** One copy: the caller's, from copies_start until `done`. Fill in the first block, zero the rest. */
struct copy {
    /** Called once. TRYST_OK: the bytes are there. Else (TRYST_E_SYSTEM, as a rule; the row has
     *  logged it) they are not, and nothing reads or writes them any more. It may start another
     *  copy, and free this one. */
    void (*done)(struct copy *copy, tryst_status status);
    const struct memory_ops *memory; /**< of the device */
    int32_t device;
    uint8_t way; /**< enum copy_way */
    void *dst;
    const void *src;
    size_t bytes; /**< 0: wait for `ready` only */
    void *ready;  /**< an event of the device that must have passed before; or NULL */

    struct list_node node; /* ours from here on */
    struct copy_event *event;
    tryst_status status;
    uint32_t fails;
    bool begun, queued, recorded;
    bool recorded_at_once;
};

/** One owner's copies. */
struct copies {
    struct list homes;   /* struct copy_home: one per device */
    struct list waiting; /* for their `ready` */
    struct list ended;   /* to be told */
    uint32_t count;      /* in any of these, or running */
};

void copies_init(struct copies *copies);
/** Closes streams and events; no copy is left. */
void copies_end(struct copies *copies);
void copies_start(struct copies *copies, struct copy *copy);
/** Take it back if it has not begun (`done` is then not called). False: `done` follows. */
bool copies_drop(struct copies *copies, struct copy *copy);
/** Ask; returns how many have ended. */
int copies_poll(struct copies *copies);
/** Does the device touch its bytes no more? From any thread, between copies_start and the first line
 *  of `done`, if the owner's calls that start and end it are kept apart from this one. */
bool copy_has_ended(const struct copy *copy);

#endif
