/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shallow trees over an order of the ranks.
 *
 * One idea: near ranks follow each other in an order; a tree with intervals of this order
 * as subtrees has few edges between sets of near ranks, whatever its depth and degree.
 *
 * In a pair of trees (Sanders, Speck, Träff 2009) each rank has children in at most one
 * tree, so each tree carries half of the tensor at the full rate of a link, in depth log2
 * n.
 * Invariant: parents are PLAN_NO_RANK at the root alone; equal orders give equal trees.
 */
#ifndef TRYST_COLLECTIVES_PLAN_SHAPES_H
#define TRYST_COLLECTIVES_PLAN_SHAPES_H

#include <stdbool.h>
#include <stdint.h>

#include "tryst/status.h"

/** Make the tree of intervals: the first rank of an interval is its root; the other ranks
 *  are cut into `degree` intervals of nearly equal length. Degree 1 is a chain, count − 1
 *  a star. Returns TRYST_OK or TRYST_E_NOMEM. */
tryst_status shape_intervals(const uint32_t *order, uint32_t count, uint32_t degree,
                             uint32_t *parent);

/** Make the binomial tree: the first rank's children are the roots of intervals of n/2,
 *  n/4… ranks. */
void shape_binomial(const uint32_t *order, uint32_t count, uint32_t *parent);

/** Make the first or the second tree of a pair. Returns its root. */
uint32_t shape_of_pair(const uint32_t *order, uint32_t count, bool second,
                       uint32_t *parent);

/** Make a star around order[first]. */
void shape_star(const uint32_t *order, uint32_t count, uint32_t first, uint32_t *parent);

/** Make the two halves of the ring's tree with the root order[first]: sums go forward
 *  through the order to the root, results forward from the root. A ring of all roots
 *  (Patarasuk, Yuan 2009) makes each rank send to the next one alone. */
void shape_ring(const uint32_t *order, uint32_t count, uint32_t first,
                uint32_t *reduce_parent, uint32_t *broadcast_parent);

/** Return the depth of a tree: the most edges from a rank up to the root. */
uint32_t shape_depth(const uint32_t *parent, uint32_t count);

#endif
