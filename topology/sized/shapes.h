/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shallow trees over an order of the ranks.
 *
 * One idea: near ranks follow each other in an order, and a tree with intervals of this order as subtrees
 * crosses a cut between near ranks few times, whatever its depth and degree.
 *
 * A pair of trees (Sanders, Speck, Träff 2009) has each rank inside one tree at most, so each carries half of the
 * tensor at the full rate of a link in depth log2 n.
 * Invariant: parents are GRAPH_NONE at the root alone; equal orders give equal trees.
 * Callers: candidates.c, compiled_make.c.
 */
#ifndef TRYST_TOPOLOGY_SHAPES_H
#define TRYST_TOPOLOGY_SHAPES_H

#include <stdbool.h>
#include <stdint.h>

#include "tryst/status.h"

/** An interval's first rank is the root; the rest is cut into `degree` intervals of like length. 1: a chain;
 *  count − 1: a star. TRYST_E_NOMEM. */
tryst_status shape_intervals(const uint32_t *order, uint32_t count, uint32_t degree,
                             uint32_t *parent);

/** The binomial tree: the first rank's children are the roots of intervals of n/2, n/4… ranks. */
void shape_binomial(const uint32_t *order, uint32_t count, uint32_t *parent);

/** A tree of a pair; returns its root. */
uint32_t shape_of_pair(const uint32_t *order, uint32_t count, bool second,
                       uint32_t *parent);

/** A star around `order[first]`. */
void shape_star(const uint32_t *order, uint32_t count, uint32_t first, uint32_t *parent);

/** Most edges from a rank up to the root. */
uint32_t shape_depth(const uint32_t *parent, uint32_t count);

#endif
