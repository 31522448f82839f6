/* SPDX-License-Identifier: Apache-2.0 */
/* A log played back: which slices could start at each moment, by the log alone. */
#ifndef TESTS_SIM_REPLAY_H
#define TESTS_SIM_REPLAY_H

#include "sim.h"

struct replayed {
    bool active; /* added, not removed and not all credited */
    bool was_added;
    int from, to;
    struct urgency urgency;
    uint64_t bytes, slice_bytes;
    uint32_t slices, posted, next, upto;
    uint64_t ready_ns; /* its first slice could be sent: added, and posted */
};

struct replay {
    const struct sim *sim;
    struct replayed *transfers;
    int count;
    uint64_t now_ns; /* of the entry that is looked at */
    uint64_t in_flight[WORLD_RANKS_MAX][WORLD_RANKS_MAX]; /* by lane */
    /* When its transport took nothing last, and one more: its turn is over then. */
    uint64_t refused_ns[WORLD_RANKS_MAX][WORLD_RANKS_MAX];
};

void replay_open(struct replay *replay, const struct sim *sim);
void replay_close(struct replay *replay);
void replay_apply(struct replay *replay, const struct sim_entry *entry);

uint64_t replayed_slice_bytes(const struct replayed *transfer, uint32_t slice);
/* Has it a slice to start, as far as its receiver goes? */
bool replayed_is_posted(const struct replayed *transfer);
/* Is there window on its lane for that? */
bool replay_fits(const struct replay *replay, const struct replayed *transfer);
/* The first of that lane and class with a slice to start; or NULL. */
const struct replayed *replay_lane_first(const struct replay *replay, int from, int to,
                                         enum urgency_class kind);
/* Could it start one: posted, first of its class on its lane, fits, and nothing keeps the
 * lane? */
bool replay_may_start(const struct replay *replay, const struct replayed *transfer);

#endif
