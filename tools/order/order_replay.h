/* SPDX-License-Identifier: Apache-2.0 */
/** @file order_replay.h
 *  A profile in virtual time: under each order of its operations, and the bound.
 *
 *  One idea: an order is a graph for the oracle and an urgency.
 *
 *  The *tail* of a node is the time from its end to the end of the profile if no
 *  operation waited for another one. PACE (Bao et al., INFOCOM 2020) orders all-reduces
 *  by tails, too.
 */
#ifndef TRYST_TOOLS_ORDER_ORDER_REPLAY_H
#define TRYST_TOOLS_ORDER_ORDER_REPLAY_H

#include "oracle.h"

/** Orders of the operations.
 *
 *   FIFO      the one that was ready first, each without interruption
 *   BUCKETS   as FIFO, after operations have been joined, in the order in which they are
 *             ready, into buckets of at least `bucket_bytes`; and no action that needs an
 *             operation begins before all buckets have ended (the gradients of PyTorch's
 *             DistributedDataParallel)
 *   PRIORITY  the one with the longest tail, each without interruption
 *   PREEMPT   the one with the longest tail, which interrupts others
 */
enum order { ORDER_FIFO, ORDER_BUCKETS, ORDER_PRIORITY, ORDER_PREEMPT, ORDER_COUNT };

/** Return "fifo", "buckets", "priority", "preempt". */
const char *order_name(enum order order);

struct order_params {
    struct oracle_network network;
    uint64_t bucket_bytes, first_bucket_bytes; /**< BUCKETS */
};

/** When everything ran in one step, in virtual time or measured: a row of a picture. */
struct order_row {
    const char *name; /**< static */
    bool is_measured;
    bool in_buckets;  /**< a piece is a bucket, named by its first operation */
    enum order order; /**< in virtual time */
    double seconds;
    struct oracle_span *spans;   /**< [nodes of the profile] */
    struct oracle_piece *pieces; /**< [pieces_count], in the order of time */
    uint32_t pieces_count;
};

/** Replay the profile. False: a bucket has operations of which one comes after
 *  another. */
bool order_replay(const struct order_profile *profile, const struct order_params *params,
                  enum order order, struct order_row *row_p);
/** A row of zeros is allowed. */
void order_row_free(struct order_row *row);

/** Return a lower bound of the time of the profile over all orders. It equals the time
 *  under PREEMPT if no path leads from one operation to another. */
double order_bound(const struct order_profile *profile,
                   const struct oracle_network *network);

/** Return the tail of each node, in seconds; the caller frees the array. The longer the
 *  tail of an operation, the more urgent it is. */
double *order_tails(const struct order_profile *profile,
                    const struct oracle_network *network);

/** Number the operations [nodes] by their tails: the longest is 0. The caller frees the
 *  array. */
int32_t *order_priorities(const struct order_profile *profile,
                          const struct oracle_network *network);

/** Put the operations into buckets, in the order in which they are ready. */
struct order_groups order_buckets(const struct order_profile *profile,
                                  const struct order_params *params);

#endif
