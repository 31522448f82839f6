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

#include "core/memory/list.h"
#include "core/memory/urgent.h"
#include "core/os/clock.h"
#include "tryst/status.h"

/** See dispatch_ops.pause. */
#define PAUSE_NS (2 * NS_PER_MS)

/** Rails that a context may have, at most. */
enum { DISPATCH_RAILS_MAX = 64 };

/** A slice that follows its path is a power of two between these (a rail may ask for less). */
#define DISPATCH_SLICE_MIN (64u << 10)
#define DISPATCH_SLICE_MAX (1u << 20)
/** Slices of collectives and of paced lanes are no larger where the rates of links are known. */
#define DISPATCH_SLICE_PACED (128u << 10)
/** Before anything is known of it. */
#define DISPATCH_SLICE_FIRST (256u << 10)

/** Samples of bandwidth, of which the largest counts. */
enum { PATH_RATES = 8 };

/** What the dispatch has learnt of the path to a peer (commsched/sched/path.h). */
struct path {
    uint64_t window_bytes; /**< may be in flight; 0 until its endpoint is ready */
    uint64_t slice_bytes;  /**< into which the peer, who receives, is asked to cut */
    uint64_t bytes_per_s;  /**< 0: not known */
    uint64_t rtt_ns;       /**< without the bytes' own time; 0: not known */
    uint64_t set_window_bytes, least_window_bytes;
    uint64_t cut_bytes;               /**< slices of what was started last */
    uint64_t rtt_probe_ns, rtt_probe_bytes;   /**< a slice that met nothing in flight */
    uint64_t rtt_probe_at_ns, rtt_probe_rate; /**< when, and bytes_per_s then */
    uint32_t rtt_probes_left;              /**< so many more are to */
    uint64_t rates[PATH_RATES];
    uint32_t rates_next;
    uint32_t flat_rounds; /**< since B grew by a quarter */
    /* The round under way: a slice from its start to its DONE. */
    uint64_t round_ns;      /**< when it began; 0: none is */
    uint64_t last_round_ns; /**< when the newest one began, also if it has ended */
    uint64_t round_left_ns; /**< so long it took what it found in flight to leave */
    uint64_t round_started, round_returned, round_probe_bytes;
    bool limited, sample_invalid;
    bool draining; /**< nothing leaves until nothing is in flight */
    /* Of a paced lane: its rate, 0 none, and the round trip that the window covers, 0 not known. */
    uint64_t pace_bytes_per_s, pace_trip_ns;
};

/** The rate that a plan gives an ordered pair of ranks: the pace of its lane. */
struct pace_plan {
    uint64_t bytes_per_s;      /**< the pair's share of the link; 0: no pace */
    uint64_t link_bytes_per_s; /**< the narrowest link of its path; 0: as `bytes_per_s` */
    uint32_t seed; /**< of the random part of starts: another for each ordered pair */
};

/** The token bucket of a lane, and its estimate of the link (commsched/sched/pace.h). Zeroed: not paced. */
struct pace {
    uint64_t planned_bytes_per_s; /**< the lane's share of its link; 0: not paced */
    uint64_t link_bytes_per_s;    /**< the rate of that link in the graph */
    double scale;                 /**< estimated over planned rate */
    double tokens;                /**< bytes that may start; negative: debt */
    double least_tokens;          /**< with which the next slice starts */
    uint64_t tokens_ns;   /**< the time that `tokens` are valid for; 0: none yet */
    uint32_t random;      /**< state of a generator */
    uint32_t learning;    /**< round trips until the base is known */
    uint64_t learning_ns; /**< when those began */
    uint64_t timed_ns;    /**< when the slice that is timed started; 0: none is */
    uint64_t timed_upto;  /**< its end in the lane's bytes */
    uint64_t timed_bytes; /**< its size */
    double queue_ns;      /**< time in queues, smoothed */
    uint64_t base_ns;     /**< least round trip of this age, without the slice's bytes */
    uint64_t base_old_ns; /**< likewise of the age before; 0: not known */
    uint64_t age;         /**< of base_ns */
};

/** What the dispatch keeps per peer; embedded in the peer, zeroed. */
struct dispatch_lane {
    struct urgent_queue
        ready[URGENCY_CLASSES]; /**< transfers with a posted slice to start */
    struct urgent_node nodes[URGENCY_CLASSES]; /**< in its rail's queues, likewise */
    struct list_node later; /**< the transport had no room: until the end of this run */
    struct list_node busy;  /**< in the dispatch's list while bytes are in flight */
    struct path path;
    uint64_t in_flight_bytes;
    uint64_t in_flight_high_bytes; /**< most ever, for tests and counters */
    int32_t rank;                  /**< of the peer, for the trace; set by rendezvous */
    const char *
        trace_name; /**< of its counter, once its endpoint is ready and this rank traces */
    uint32_t rail;
    bool stalled; /**< the peer does not look: its bytes do not count against the rail */
    uint64_t credited_ns; /**< when window came back last, or the first byte left */
    uint64_t
        srtt_ns; /**< a slice's, from its start to its credit: smoothed, 0 not known */
    uint64_t started_bytes; /**< ever */
    struct pace pace;
    struct list_node paced; /**< in the dispatch's list while the bucket holds a slice, */
    uint64_t paced_ns;      /**< until then */
};

struct transfer {
    struct urgent_node node; /**< lane->ready */
    struct urgency urgency;  /**< the more urgent of both ends */
    struct dispatch_lane *lane;
    uint64_t bytes;
    uint32_t slice_bytes;
    uint32_t slices;
    uint32_t ready;  /**< slices with bytes to send: all, but for a flow */
    uint32_t posted; /**< slices that the receiver has posted */
    uint32_t next;   /**< first slice that was not started */
    uint32_t upto;   /**< slices that the receiver has */
    bool in_turn;    /**< a flow: of equally urgent ones each starts a slice in turn */
    /** The rate that a plan gives to transfers of this kind on this lane, all together: their slices start at the pace
     *  of the lane. 0: not of a plan, and no slice waits. */
    uint64_t pace_bytes_per_s;
};

/** Bytes of slice `index`. */
static inline uint64_t transfer_slice_bytes(const struct transfer *transfer,
                                            uint32_t index)
{
    uint64_t at = (uint64_t)index * transfer->slice_bytes;
    uint64_t left = transfer->bytes - at;
    return left < transfer->slice_bytes ? left : transfer->slice_bytes;
}

/** True if the next slice is ready and posted. */
static inline bool transfer_may_start(const struct transfer *transfer)
{
    return transfer->next < transfer->posted && transfer->next < transfer->ready;
}

/** Why the next slice of a transfer does not start; the values of tryst_live_hold. */
enum transfer_hold {
    HOLD_NONE,      /**< all have been started */
    HOLD_UNPOSTED,  /**< its receiver has posted no further slice */
    HOLD_BEHIND,    /**< another transfer has its turn before */
    HOLD_WINDOW,    /**< as much is in flight to its peer as may be */
    HOLD_RAIL,      /**< or on its rail */
    HOLD_TRANSPORT, /**< nothing, but that the transport had no room */
    HOLD_UNREADY,   /**< the sender does not have its bytes yet */
    HOLD_PACE,      /**< the pace of its lane */
};

/** Installed by the layer above into rendezvous_params. All in the progress domain. */
struct dispatch_ops {
    void (*lane_init)(void *arg, struct dispatch_lane *lane);
    /** The lane's endpoint is ready: its bytes take the window of `rail` (< DISPATCH_RAILS_MAX), which
     *  asks for a window of at least `window_bytes` to each peer and moves `rail_bytes_per_s` (0: not known). Nothing
     *  is in flight. */
    void (*lane_ready)(void *arg, struct dispatch_lane *lane, uint32_t rail,
                       uint64_t window_bytes, uint64_t rail_bytes_per_s);
    /** A transfer may start; `posted` slices have room at the receiver. */
    void (*add)(void *arg, struct transfer *transfer);
    /** More slices are posted or ready (transfer->posted or ->ready has grown), or none is posted any more
     *  (transfer->posted is transfer->next): nothing further starts, and remove follows. */
    void (*posted)(void *arg, struct transfer *transfer);
    /** One of its ends finds it more urgent: `rank` of core/memory/urgency.h; a lesser one changes nothing. */
    void (*raise)(void *arg, struct transfer *transfer, uint64_t rank);
    /** `bytes` of it have arrived: their window is free again. */
    void (*credit)(void *arg, struct transfer *transfer, uint64_t bytes);
    /** Forget it: nothing further starts. What is in flight gives its window back, since no DONE will
     *  come. */
    void (*remove)(void *arg, struct transfer *transfer);
    /** For PAUSE_NS or longer this rank (`lane` NULL), or the lane's peer, was outside of the library:
     *  what came back meanwhile tells nothing of the path. */
    void (*pause)(void *arg, struct dispatch_lane *lane);
    /** Pace the lane by its plan from now on; bytes may be in flight. */
    void (*pace)(void *arg, struct dispatch_lane *lane, const struct pace_plan *plan);
    /** Returns the bytes that may be in flight on the rail, and that a receiver posts on it for several senders. */
    uint64_t (*rail_window)(const void *arg, uint32_t rail);
    /** Start what may start. Returns the number of slices started. */
    int (*run)(void *arg);
    /** Why does the transfer not go on? HOLD_BEHIND: `*before_p` has its turn before. */
    enum transfer_hold (*held_by)(void *arg, const struct transfer *transfer,
                                  const struct transfer **before_p);
    /** Time has passed: the next run may start more. */
    void (*timer)(void *arg, uint64_t now_ns);
    /** When to look at the latest (CLOCK_MONOTONIC ns), 0 none. */
    uint64_t (*next_ns)(const void *arg);
};

/** Provided by rendezvous: start slice transfer->next. TRYST_OK (the caller advances `next`),
 *  TRYST_AGAIN, or TRYST_E_PEER (the transfer is about to be removed). */
tryst_status transfer_start(struct transfer *transfer);

#endif
