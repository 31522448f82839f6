/* SPDX-License-Identifier: Apache-2.0 */
/** @file oracle_wire.h
 *  One serial resource that serves operations by urgency, in virtual time.
 *
 *  Idea: between two moments at which an operation becomes ready the wire serves the most
 *  urgent one, and the next ones as it ends. So the owner moves time forward to the next
 *  moment of its own, and gets each operation that ends before.
 *  Invariant: an operation that has bytes left is being served, or waits in the heap.
 */
#ifndef TRYST_COMMSCHED_PROFILE_ORACLE_WIRE_H
#define TRYST_COMMSCHED_PROFILE_ORACLE_WIRE_H

#include "oracle.h"

/** A binary heap of nodes: the smallest key first, of equal ones the lowest node. */
struct oracle_heap {
    struct oracle_entry {
        double key;
        uint32_t node;
    } * entries; /**< room for all nodes */
    uint32_t count;
};

void oracle_heap_push(struct oracle_heap *heap, double key, uint32_t node);
struct oracle_entry oracle_heap_pop(struct oracle_heap *heap);

struct oracle_wire {
    const double *urgency; /**< [nodes]; NULL: the order of oracle_wire_add */
    bool interrupts;
    double now_s;
    double *left_s; /**< [nodes]: time on the wire that is left */
    struct oracle_heap waiting;
    uint32_t served; /**< ORACLE_NONE: the wire is idle */
    tryst_profile_piece *pieces;
    uint32_t pieces_count;
};

/** Begin at time 0 with an idle wire. left_s is the owner's to fill. */
void oracle_wire_reset(struct oracle_wire *wire, const double *urgency, bool interrupts);
/** Note that the operation is ready now. */
void oracle_wire_add(struct oracle_wire *wire, uint32_t node);
/** Move time forward to `until_s`, or to the end of the operation that is served, if it
 *  ends no later. Returns the operation that has ended, ORACLE_NONE: none. */
uint32_t oracle_wire_advance(struct oracle_wire *wire, double until_s);

#endif
