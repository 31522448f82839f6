/* SPDX-License-Identifier: Apache-2.0 */
/** @file transfer.h
 *  What the scheduler works on: transfers, and the lane of each peer.
 *
 *  A transfer exists once both ends are ready. The protocol adds it to the scheduler,
 *  which decides when each slice starts (sched_params.start); the receiver's DONE returns
 *  the window. The scheduler touches neither memory nor wire, so tests check its policy
 *  on plain structs.
 */
#ifndef TRYST_COMMSCHED_SCHED_TRANSFER_H
#define TRYST_COMMSCHED_SCHED_TRANSFER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/memory/list.h"
#include "core/memory/urgent.h"
#include "core/os/clock.h"
#include "tryst/status.h"

/** The shortest absence from the library that sched_pause reports. */
#define PAUSE_NS (2 * NS_PER_MS)

/** The most rails of a context. */
enum { SCHED_RAILS_MAX = 64 };

/** A slice size that follows its path is a power of two within these bounds; a rail may
 *  set less. */
#define SCHED_SLICE_MIN (64u << 10)
#define SCHED_SLICE_MAX (1u << 20)
/** The largest slice of collectives where the rates of links are known. */
#define SCHED_SLICE_PLANNED (128u << 10)
/** The slice size before the path is measured. */
#define SCHED_SLICE_FIRST (256u << 10)

/** Samples of bandwidth; the second largest counts. */
enum { PATH_RATES = 8 };

/** Measurements of the path to a peer (commsched/sched/path.h). */
struct path {
    /** Limit of the bytes in flight; 0 until the endpoint is ready. */
    uint64_t window_bytes;
    /** The slice size that the receiving peer is requested to use. */
    uint64_t slice_bytes;
    uint64_t bytes_per_s; /**< bandwidth; 0: unknown */
    uint64_t rtt_ns;      /**< round trip without the time of the bytes; 0: unknown */
    uint64_t set_window_bytes, least_window_bytes;
    uint64_t cut_bytes; /**< size of the slices of the newest transfer */
    /** Time and size of a slice that started with nothing in flight. */
    uint64_t rtt_probe_ns, rtt_probe_bytes;
    /** The time of the probe, and bytes_per_s then. */
    uint64_t rtt_probe_at_ns, rtt_probe_rate;
    uint32_t rtt_probes_left; /**< further probes to make */
    uint64_t rates[PATH_RATES];
    uint32_t rates_next;
    uint32_t flat_rounds; /**< rounds since bytes_per_s grew by a quarter */
    /** The current round: a slice from its start to its DONE. */
    uint64_t round_ns;      /**< the start of the round; 0: no round */
    uint64_t last_round_ns; /**< the start of the newest round, ended or not */
    /** The time from the start of the round before to the start of this one; 0: nothing
     *  was in flight when this one started. */
    uint64_t round_left_ns;
    uint64_t round_started, round_returned, round_probe_bytes;
    bool limited, sample_invalid;
    bool draining; /**< no slice starts until nothing is in flight */
};

/** Why a transfer has started no further slice. */
enum transfer_wait {
    WAIT_NONE,  /**< all slices have started, or the transfer is on no lane */
    WAIT_TURN,  /**< the next slice is ready and posted */
    WAIT_GRANT, /**< the next slice is ready; the receiver has not posted it */
    WAIT_DATA,  /**< this rank does not have the bytes of the next slice yet */
    TRANSFER_WAITS
};

/** The state of a lane; lane_time has the time of each. */
enum lane_state {
    LANE_IDLE,      /**< no transfer has a slice to start */
    LANE_HELD,      /**< nothing in flight; a slice waits for its turn, a window, the
                     *   rail or the transport */
    LANE_UNGRANTED, /**< nothing in flight or held; the receiver has not posted a slice */
    LANE_UNREADY,   /**< nor that; this rank does not have the bytes of a slice yet */
    LANE_MOVING,    /**< bytes are in flight */
    LANE_STATES
};

/** The time that a lane has spent in each state (commsched/sched/lane_time.h). */
struct lane_time {
    uint64_t sums_ns[LANE_STATES];  /**< until since_ns */
    uint64_t since_ns;              /**< the start of the current state */
    uint32_t waits[TRANSFER_WAITS]; /**< transfers of the lane by their wait */
    uint8_t state;                  /**< enum lane_state */
};

/** Return the time that the lane has spent in `state` until `now_ns`. */
static inline uint64_t lane_time_ns(const struct lane_time *time, enum lane_state state,
                                    uint64_t now_ns)
{
    return time->sums_ns[state] +
           (time->state == state ? clock_since_ns(time->since_ns, now_ns) : 0);
}

/** The state of the scheduler for one peer; embedded in the peer, zeroed. */
struct sched_lane {
    /** Transfers with a posted slice to start. */
    struct urgent_queue ready[URGENCY_CLASSES];
    /** One for each class: in the rail's queue of lanes for that class. */
    struct urgent_node nodes[URGENCY_CLASSES];
    /** In the list of lanes for which the transport had no room; they are queued again at
     *  the end of this run. */
    struct list_node later;
    struct list_node busy; /**< in the scheduler's list while bytes are in flight */
    struct path path;
    uint64_t in_flight_bytes;
    uint64_t in_flight_high_bytes; /**< highest in_flight_bytes, for tests and counters */
    int32_t rank; /**< the peer's rank, for the trace; set by rendezvous */
    /** Name of the lane's trace counter; set once the endpoint is ready, if this rank
     *  traces. */
    const char *trace_name;
    uint32_t rail;
    /** The peer returns no window: the bytes in flight do not count against the rail. */
    bool stalled;
    /** Rounds left in which the lane counts for half of its rail's window at most, since
     *  it has stalled or has started a slice larger than that. */
    uint32_t probation;
    uint64_t counted_bytes; /**< the part of in_flight_bytes that counts at the rail */
    /** The time of the last credit, or of the first byte in flight. */
    uint64_t credited_ns;
    /** Smoothed time of a slice from its start to its credit; 0: unknown. */
    uint64_t srtt_ns;
    uint64_t started_bytes; /**< sum of all bytes started */
    struct lane_time time;
};

struct transfer {
    struct urgent_node node; /**< in lane->ready */
    struct urgency urgency;  /**< that of the more urgent end */
    struct sched_lane *lane;
    uint64_t bytes;
    uint32_t slice_bytes;
    uint32_t slices;
    uint32_t ready;   /**< slices with bytes to send: all, except for a flow */
    uint32_t posted;  /**< slices that the receiver has posted */
    uint32_t next;    /**< first slice that has not started */
    uint32_t upto;    /**< the receiver has acknowledged slices [0, upto) */
    bool round_robin; /**< a flow: equally urgent flows start slices in turn */
    uint8_t wait;     /**< enum transfer_wait; counted in lane->time.waits */
};

/** Return the bytes of slice `index`. */
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

/** The reason why the next slice of a transfer does not start; the values of
 *  tryst_live_hold. */
enum transfer_hold {
    HOLD_NONE,      /**< all slices have started */
    HOLD_UNPOSTED,  /**< the receiver has posted no further slice */
    HOLD_BEHIND,    /**< another transfer goes first */
    HOLD_WINDOW,    /**< the window to the peer is full */
    HOLD_RAIL,      /**< the window of the rail is full */
    HOLD_TRANSPORT, /**< the transport has no room */
    HOLD_UNREADY,   /**< the sender does not have the bytes yet */
};

#endif
