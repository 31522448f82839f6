/* SPDX-License-Identifier: Apache-2.0 */
/** @file step_graph.h
 *  The graph of a profile for the oracle, as it is or with operations joined.
 *
 *  With joined operations the graph has these nodes:
 *
 *      0 … n-1      those of the profile; operations take no time
 *      n … n+g-1    the groups: operations, behind what their members come after
 *      n+g          the barrier, if there is one: the end of all groups
 *
 *  An operation of the profile comes after its group or, with a barrier, after all.
 */
#ifndef TRYST_COMMSCHED_PROFILE_STEP_GRAPH_H
#define TRYST_COMMSCHED_PROFILE_STEP_GRAPH_H

#include "profile.h"

/** Groups of operations. */
struct joined {
    uint32_t nodes_count, count;
    uint32_t *of;    /**< [nodes_count]: the group of an operation */
    uint32_t *first; /**< [count]: the operation that was put into it first */
    double *bytes;   /**< [count] */
};

/** Make room for the groups of a profile. False: out of memory. */
bool joined_open(struct joined *joined, const struct tryst_profile *profile);
void joined_close(struct joined *joined);
/** Put the operation `node` into `group`; joined->count makes a new one. */
void joined_put(struct joined *joined, const struct tryst_profile *profile, uint32_t node,
                uint32_t group);

/** Make profile->oracle that of the profile (`joined` NULL), or of the profile with
 *  joined operations. *cycle_p and statuses as of oracle_open. */
tryst_status step_graph_open(struct tryst_profile *profile,
                             const tryst_profile_params *params,
                             const struct joined *joined, bool barrier, struct err *err,
                             uint32_t *cycle_p);

#endif
