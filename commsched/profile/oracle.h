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
#ifndef TRYST_COMMSCHED_PROFILE_ORACLE_H
#define TRYST_COMMSCHED_PROFILE_ORACLE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/text/err.h"
#include "tryst/profile.h"

#define ORACLE_NONE UINT32_MAX

struct oracle;

struct oracle_node {
    bool is_operation;
    double seconds; /**< duration, or time on the wire */
    /** Operation: from its last byte on the wire to its end. */
    double latency_s;
};

/** Node `to` starts after the end of node `from`. */
struct oracle_edge {
    uint32_t from, to;
};

/** Make an oracle of `nodes_count` nodes and `edges_count` edges, which are copied.
 *  TRYST_E_INVALID: a duration that is negative or not finite, an edge to no node, a
 *  cycle: then *cycle_p (NULL is allowed) is a node of a cycle, or one behind a cycle,
 *  else ORACLE_NONE. TRYST_E_NOMEM. */
tryst_status oracle_open(const struct oracle_node *nodes, uint32_t nodes_count,
                         const struct oracle_edge *edges, uint32_t edges_count,
                         struct err *err, uint32_t *cycle_p, struct oracle **oracle_p);
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
                     tryst_profile_span *spans);
/** Return the pieces of the last replay in the order of time, and their number. Valid
 *  until the next replay. Neighbours of one operation are one piece. */
const tryst_profile_piece *oracle_pieces(const struct oracle *oracle, uint32_t *count_p);

/** Return a lower bound of the time of the step over all orders of the operations. It
 *  equals the replay by tails where no path leads from one operation to another. (Each
 *  operation is ready, and its tail is, as if it did not wait for others; the wire serves
 *  all.) */
double oracle_bound(struct oracle *oracle);

#endif
