/* SPDX-License-Identifier: Apache-2.0 */
/* The replay of a log: which slices could start at each moment, derived from the log
 * alone. */
#ifndef TRYST_TESTS_SIM_REPLAY_H
#define TRYST_TESTS_SIM_REPLAY_H

#include "sim.h"

struct replayed {
    bool active; /**< added, not removed, and not fully credited */
    bool was_added;
    int from, to;
    struct urgency urgency;
    uint64_t bytes, slice_bytes;
    uint32_t slices, posted, next, upto;
    /** Time at which the first slice could be sent: added, and posted. */
    uint64_t ready_ns;
};

struct replay {
    const struct sim *sim;
    struct replayed *transfers;
    int count;
    /** Time of the current entry. */
    uint64_t now_ns;
    uint64_t in_flight[WORLD_RANKS_MAX][WORLD_RANKS_MAX]; /**< bytes by lane */
    /** Time of the transport's last refusal, plus one; the lane's turn is over at that
     *  time. */
    uint64_t refused_ns[WORLD_RANKS_MAX][WORLD_RANKS_MAX];
};

void replay_open(struct replay *replay, const struct sim *sim);
void replay_close(struct replay *replay);
void replay_apply(struct replay *replay, const struct sim_entry *entry);

uint64_t replayed_slice_bytes(const struct replayed *transfer, uint32_t slice);
/** True if the transfer has a posted slice to start. */
bool replayed_is_posted(const struct replayed *transfer);
/** True if the lane's window has room for that slice. */
bool replay_fits(const struct replay *replay, const struct replayed *transfer);
/** Return the first transfer of the lane and class with a slice to start, or NULL. */
const struct replayed *replay_lane_first(const struct replay *replay, int from, int to,
                                         enum urgency_class kind);
/** True if the transfer could start a slice: posted, first of its class on its lane,
 *  within the window, and no slice of the other class keeps the lane. */
bool replay_may_start(const struct replay *replay, const struct replayed *transfer);

#endif
