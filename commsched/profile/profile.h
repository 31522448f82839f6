/* SPDX-License-Identifier: Apache-2.0 */
/** @file profile.h
 *  A step as a graph with durations: see tryst/profile.h.
 *
 *  Invariant: `after` has the predecessors of node 0, then those of node 1, and so on. A
 *  profile that a reader returned has no cycle.
 */
#ifndef TRYST_COMMSCHED_PROFILE_PROFILE_H
#define TRYST_COMMSCHED_PROFILE_PROFILE_H

#include "core/text/err.h"
#include "core/text/origin.h"
#include "tryst/profile.h"

/** Times that a recorded step has for an operation. */
enum profile_time {
    PROFILE_READY,
    PROFILE_MATCHED,
    PROFILE_FIRST_SLICE,
    PROFILE_DONE,
    PROFILE_FIRST_USE,
    PROFILE_TIMES
};

struct profile_node {
    char *name;
    bool is_operation;
    double seconds;                    /**< action */
    uint64_t bytes;                    /**< operation */
    double times_s[PROFILE_TIMES];     /**< below 0: not recorded */
    uint32_t after_first, after_count; /**< in `after` of the profile */
};

struct tryst_profile {
    struct origin origin;
    struct profile_node *nodes;
    size_t nodes_room;
    uint32_t nodes_count;
    uint32_t *after;
    size_t after_room;
    uint32_t after_count;
};

/** Make an empty profile. NULL: out of memory. */
struct tryst_profile *profile_open(void);
void profile_close(struct tryst_profile *profile);

/** Add a node, with a copy of the name, and nothing recorded; the caller fills in the
 *  rest. NULL: out of memory, or too many nodes. Valid until the next one is added. */
struct profile_node *profile_node_add(struct tryst_profile *profile, const char *name);
/** Note that the node `index` comes after node `before`. Nodes get their predecessors in
 *  the order of nodes. False: out of memory, or too many. */
bool profile_after_add(struct tryst_profile *profile, uint32_t index, uint32_t before);

/** Return the name of a time in JSON: "first_use". Static. */
const char *profile_time_name(enum profile_time time);

#endif
