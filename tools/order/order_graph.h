/* SPDX-License-Identifier: Apache-2.0 */
/** @file order_graph.h
 *  A profile as what a rank runs: actions to wait for, and all-reduces. */
#ifndef TRYST_TOOLS_ORDER_ORDER_GRAPH_H
#define TRYST_TOOLS_ORDER_ORDER_GRAPH_H

#include "order.h"

struct order_graph_node {
    bool is_operation;
    uint64_t ns;            /**< action */
    uint64_t offset, count; /**< operation: its elements (fp32) in the rank's memory */
    int32_t priority;       /**< operation: 0 is the most urgent */
    uint32_t origin;        /**< operation: the profile's; of a bucket: its first one */
    uint32_t before_count;  /**< nodes that it comes after */
    uint32_t next_first, next_count; /**< nodes that come after it, in `next` */
};

struct order_graph {
    struct order_graph_node *nodes;
    uint32_t count;
    uint32_t *next;
    uint64_t elements; /**< of all operations */
};

enum order_graph_kind {
    ORDER_GRAPH_PROFILE, /**< the profile; priorities by tails */
    /** the operations in buckets, all of which end before an action that needs one */
    ORDER_GRAPH_BUCKETS,
    ORDER_GRAPH_BARE /**< the operations alone, all ready at once */
};

/** Make the graph. `params` give the tails and the buckets; all ranks have the same ones.
 *  TRYST_E_INVALID: the profile cannot be in buckets. */
tryst_status order_graph_open(tryst_profile *profile, enum order_graph_kind kind,
                              const tryst_profile_params *params,
                              struct order_graph *graph_p);
/** A graph of zeros is allowed. */
void order_graph_close(struct order_graph *graph);

#endif
