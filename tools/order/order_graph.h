/* SPDX-License-Identifier: Apache-2.0 */
/** @file order_graph.h
 *  A profile as what is run, in virtual time (oracle.h) or by a rank (order_step.h): as
 *  it is, with operations joined to buckets, or its operations alone.
 *
 *  With buckets the graph has these nodes:
 *
 *      0 … n-1      those of the profile; operations take no time
 *      n … n+g-1    the buckets: operations, behind what their members come after
 *      n+g          the barrier: the end of all buckets
 *
 *  An operation of the profile comes after the barrier.
 */
#ifndef TRYST_TOOLS_ORDER_ORDER_GRAPH_H
#define TRYST_TOOLS_ORDER_ORDER_GRAPH_H

#include "order_profile.h"

struct order_graph_node {
    bool is_operation;
    double seconds;        /**< action */
    uint64_t bytes;        /**< operation */
    uint32_t origin;       /**< operation: the profile's; of a bucket: its first one */
    uint32_t before_count; /**< nodes that it comes after */
    uint32_t next_first, next_count; /**< nodes that come after it, in `next` */
};

struct order_graph {
    struct order_graph_node *nodes; /**< [count] */
    uint32_t count;
    uint32_t *next;
};

/** Buckets: groups of operations that are joined. */
struct order_groups {
    uint32_t count;
    uint32_t *of;    /**< [nodes]: the group of an operation */
    uint32_t *first; /**< [count]: the operation that was put into it first */
};

struct order_groups order_groups_open(const struct order_profile *profile);
void order_groups_close(struct order_groups *groups);
/** Put the operation `node` into `group`; groups->count makes a new one. */
void order_groups_put(struct order_groups *groups, uint32_t node, uint32_t group);

/** Make the graph of the profile, with the operations in buckets unless `groups` is
 *  NULL. */
struct order_graph order_graph_open(const struct order_profile *profile,
                                    const struct order_groups *groups);
/** Make the graph of the profile's operations alone, all ready at once. */
struct order_graph order_graph_bare(const struct order_profile *profile);
/** A graph of zeros is allowed. */
void order_graph_close(struct order_graph *graph);

#endif
