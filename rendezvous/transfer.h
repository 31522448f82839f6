/* SPDX-License-Identifier: Apache-2.0 */
/** @file transfer.h
 *  What rendezvous and the dispatch above it say to each other.
 *
 *  A transfer exists once both sides are ready. Rendezvous adds it to the dispatch; the dispatch
 *  decides when each slice starts and calls transfer_start; the receiver's DONE gives window
 *  back. The dispatch never touches memory or the wire, so its policy is tested on plain structs.
 */
#ifndef RENDEZVOUS_TRANSFER_H
#define RENDEZVOUS_TRANSFER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/list.h"
#include "tryst/status.h"

/** What the dispatch keeps per peer; embedded in the peer, zeroed. */
struct dispatch_lane {
    struct list transfers;   /**< with slices left to start, oldest first */
    struct list_node active; /**< in the dispatch's list while `transfers` is not empty */
    uint64_t window_bytes; /**< what the peer's rail asks for (struct rail), 0: nothing */
    uint64_t in_flight_bytes;
    uint64_t in_flight_high_bytes; /**< most ever, for tests and counters */
    uint32_t rail;
};

struct transfer {
    struct list_node node; /**< lane->transfers */
    struct dispatch_lane *lane;
    uint64_t bytes;
    uint32_t slice_bytes;
    uint32_t slices;
    uint32_t posted; /**< slices that the receiver has posted */
    uint32_t next;   /**< first slice that was not started */
    uint32_t upto;   /**< slices that the receiver has */
    int32_t priority;
};

/** Bytes of slice `index`. */
static inline uint64_t transfer_slice_bytes(const struct transfer *transfer,
                                            uint32_t index)
{
    uint64_t at = (uint64_t)index * transfer->slice_bytes;
    uint64_t left = transfer->bytes - at;
    return left < transfer->slice_bytes ? left : transfer->slice_bytes;
}

/** Installed by the layer above into rendezvous_params. All in the progress domain. */
struct dispatch_ops {
    void (*lane_init)(void *arg, struct dispatch_lane *lane, uint32_t rail);
    /** A transfer may start; `posted` slices have room at the receiver. */
    void (*add)(void *arg, struct transfer *transfer);
    /** More slices are posted (transfer->posted has grown). */
    void (*posted)(void *arg, struct transfer *transfer);
    /** `bytes` of it have arrived: their window is free again. */
    void (*credit)(void *arg, struct transfer *transfer, uint64_t bytes);
    /** Forget it: nothing further starts. What is in flight gives its window back at once,
     *  since no DONE will come. */
    void (*remove)(void *arg, struct transfer *transfer);
    /** Start what may start. Returns the number of slices started. */
    int (*run)(void *arg);
};

/** Provided by rendezvous: start slice transfer->next. TRYST_OK (the caller advances `next`),
 *  TRYST_AGAIN, or TRYST_E_PEER (the transfer is about to be removed). */
tryst_status transfer_start(struct transfer *transfer);

#endif
