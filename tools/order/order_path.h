/* SPDX-License-Identifier: Apache-2.0 */
/** @file order_path.h
 *  The critical path of a profile, and the chain that gives a replay its length. */
#ifndef TRYST_TOOLS_ORDER_ORDER_PATH_H
#define TRYST_TOOLS_ORDER_ORDER_PATH_H

#include "order_replay.h"

/** A part of a chain: an action, or a time in which the network serves an operation. */
struct order_path_part {
    uint32_t node;
    bool is_operation;
    double from_s, to_s;
};

struct order_path {
    struct order_path_part *parts; /**< in the order of time */
    uint32_t count;
};

/** Find the longest path through the graph, where no operation waits for another one: its
 *  parts follow each other from time 0. */
struct order_path order_path_longest(const struct order_profile *profile,
                                     const struct oracle_network *network);
/** Find the chain that ends with a replay: an action begins when the part before it ends;
 *  the network serves operations without a pause from the moment at which one of them was
 *  ready and began. If each part were shorter, the step would be. `network` is that of
 *  the replay. */
struct order_path order_path_of_row(const struct order_profile *profile,
                                    const struct oracle_network *network,
                                    const struct order_row *row);
void order_path_free(struct order_path *path);

#endif
