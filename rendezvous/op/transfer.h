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
#include "core/urgent.h"
#include "tryst/status.h"

/** Rails that a context may have, at most. */
enum { DISPATCH_RAILS_MAX = 64 };

/** What the dispatch keeps per peer; embedded in the peer, zeroed. */
struct dispatch_lane {
    struct urgent_queue
        ready[URGENCY_CLASSES]; /**< transfers with a posted slice to start */
    struct urgent_node nodes[URGENCY_CLASSES]; /**< in its rail's queues, likewise */
    struct list_node later; /**< the transport had no room: until the end of this run */
    struct list_node busy;  /**< in the dispatch's list while bytes are in flight */
    uint64_t window_bytes;  /**< may be in flight; 0 until its endpoint is ready */
    uint64_t in_flight_bytes;
    uint64_t in_flight_high_bytes; /**< most ever, for tests and counters */
    int32_t rank;                  /**< of the peer, for the trace; set by rendezvous */
    const char *
        trace_name; /**< of its counter, once its endpoint is ready and this rank traces */
    uint32_t rail;
    bool away; /**< the peer does not look: its bytes do not count against the rail */
    uint64_t heard_ns; /**< when window came back last, or the first byte left */
    /* One slice at a time is timed, from its start to its credit. */
    uint64_t turn_ns;       /**< smoothed, 0 not known */
    uint64_t timed_ns;      /**< when the slice that is timed was started, 0 none is */
    uint64_t started_bytes; /**< ever */
    uint64_t timed_bytes;   /**< started_bytes behind it */
};

struct transfer {
    struct urgent_node node; /**< lane->ready */
    struct urgency urgency;  /**< the more urgent of both ends */
    struct dispatch_lane *lane;
    uint64_t bytes;
    uint32_t slice_bytes;
    uint32_t slices;
    uint32_t posted; /**< slices that the receiver has posted */
    uint32_t next;   /**< first slice that was not started */
    uint32_t upto;   /**< slices that the receiver has */
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
    void (*lane_init)(void *arg, struct dispatch_lane *lane);
    /** The lane's endpoint is ready: its bytes take the window of `rail` (< DISPATCH_RAILS_MAX), and
     *  its own where that is larger than the default (`window_bytes`, 0 none). Nothing is in flight. */
    void (*lane_ready)(void *arg, struct dispatch_lane *lane, uint32_t rail,
                       uint64_t window_bytes);
    /** A transfer may start; `posted` slices have room at the receiver. */
    void (*add)(void *arg, struct transfer *transfer);
    /** More slices are posted (transfer->posted has grown), or none is any more (it is transfer->next):
     *  nothing further starts, and remove follows. */
    void (*posted)(void *arg, struct transfer *transfer);
    /** One of its ends finds it more urgent: `rank` of core/urgency.h; a lesser one changes nothing. */
    void (*raise)(void *arg, struct transfer *transfer, uint64_t rank);
    /** `bytes` of it have arrived: their window is free again. */
    void (*credit)(void *arg, struct transfer *transfer, uint64_t bytes);
    /** Forget it: nothing further starts. What is in flight gives its window back, since no DONE will
     *  come. */
    void (*remove)(void *arg, struct transfer *transfer);
    /** Start what may start. Returns the number of slices started. */
    int (*run)(void *arg);
    /** Time has passed: the next run may start more. */
    void (*look)(void *arg, uint64_t now_ns);
    /** When to look at the latest (CLOCK_MONOTONIC ns), 0 none. */
    uint64_t (*next_ns)(const void *arg);
};

/** Provided by rendezvous: start slice transfer->next. TRYST_OK (the caller advances `next`),
 *  TRYST_AGAIN, or TRYST_E_PEER (the transfer is about to be removed). */
tryst_status transfer_start(struct transfer *transfer);

#endif
