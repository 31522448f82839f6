/* SPDX-License-Identifier: Apache-2.0 */
/** @file oracle.h
 *  The shortest time of a step with known durations.
 *
 *  A step is a directed acyclic graph. Its nodes are actions of computation, each with a
 *  duration, and operations, each with a time on the wire and a latency. The wire is one
 *  serial resource: it serves one operation at a time, and may interrupt it at any moment
 *  for another one. Actions of one processor are in sequence by edges.
 *
 *  Idea: serve the ready operation with the longest tail, which is the time from its last
 *  byte to the end of the step if nothing else used the wire (Jackson's rule, preemptive;
 *  Horn 1974, Carlier 1982). This is optimal where no operation is ready later because of
 *  another one, as in a step of data-parallel training. In other steps oracle_bound
 *  bounds the distance to the optimum.
 *
 *  Times are seconds from the start of the step. One thread per oracle.
 */
#ifndef TRYST_TOOLS_ORDER_ORACLE_H
#define TRYST_TOOLS_ORDER_ORACLE_H

#include "order_graph.h"

#define ORACLE_NONE UINT32_MAX

/** The network: an operation takes its bytes / `bytes_per_s` of the wire, and ends
 *  `latency_s` after its last byte. */
struct oracle_network {
    double bytes_per_s, latency_s;
};

/** When a node ran. */
struct oracle_span {
    double ready_s; /**< all nodes that it comes after have ended */
    double start_s; /**< it begins, or its first byte is on the wire */
    double end_s;
};

/** A time in which the wire serves an operation. */
struct oracle_piece {
    uint32_t node;
    double from_s, to_s;
};

struct oracle;

/** Make the oracle of a graph, which becomes the oracle's. NULL: the graph has a
 *  cycle. */
struct oracle *oracle_open(struct order_graph *graph,
                           const struct oracle_network *network);
/** NULL is allowed. */
void oracle_close(struct oracle *oracle);

/** Return the tails [nodes]: the longest path from the end of each action, or from the
 *  last byte of each operation, to the end of the step, where no operation waits for
 *  another one. Valid until oracle_close. */
const double *oracle_tails(const struct oracle *oracle);

/** Return when each node [nodes] would be ready if no operation waited for another one.
 *  Valid until the next call. */
const double *oracle_heads(struct oracle *oracle);

/** Replay the step. The wire serves the ready operation with the largest `urgency`
 *  [nodes]; of equal ones, that of the lowest index. `urgency` NULL: the one that was
 *  ready first. `interrupts` false: an operation keeps the wire from its first byte to
 *  its last one.
 *  `spans` [nodes] may be NULL. Returns the time of the step. */
double oracle_replay(struct oracle *oracle, const double *urgency, bool interrupts,
                     struct oracle_span *spans);
/** Return the pieces of the last replay in the order of time, and their number. Valid
 *  until the next replay. Neighbours of one operation are one piece. */
const struct oracle_piece *oracle_pieces(const struct oracle *oracle, uint32_t *count_p);

/** Return a lower bound of the time of the step over all orders of the operations. It
 *  equals the replay by tails where no path leads from one operation to another. (Each
 *  operation is ready, and its tail is, as if it did not wait for others; the wire serves
 *  all.) */
double oracle_bound(struct oracle *oracle);

#endif
