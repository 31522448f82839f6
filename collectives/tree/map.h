/* SPDX-License-Identifier: Apache-2.0 */
/** @file map.h
 *  The range of elements of a collective's tensor that each tree moves, and the number of
 *  slices of a range. Pure functions of the plan, the count, the dtype and the limit for
 *  DATA, which are equal on all ranks, so all ranks compute the same.
 */
#ifndef TRYST_COLLECTIVES_TREE_MAP_H
#define TRYST_COLLECTIVES_TREE_MAP_H

#include <stdbool.h>
#include <stddef.h>

#include "coll_plan.h"

/** Ranges begin at whole cache lines of the tensor. */
enum { COLL_LINE_BYTES = 64 };
/** The least slice of a tree: that of a flow. */
enum { COLL_SLICE_BYTES_MIN = 4096 };
/** The most slices of one range: both ends of a flow accept this number, also where
 *  the last slice is whole. */
#define COLL_SLICES_MAX ((UINT64_C(1) << 31) - 2)

struct coll_range {
    uint64_t begin, count; /**< elements */
};

/** Return the bytes of `count` elements, UINT64_MAX at most. */
uint64_t coll_bytes(uint64_t count, size_t element_bytes);
/** Return the class of collectives of `bytes`. */
const struct coll_class *coll_class_of(const struct coll_plan *plan, uint64_t bytes);
/** The most ranks that exchange, and the most bytes of a term where there are more than
 *  two: what was measured (tests/perf/RESULTS.md). */
enum { COLL_EXCHANGE_RANKS_MAX = 8, COLL_EXCHANGE_BYTES_MAX = 4096 };
/** True if all ranks exchange an all-reduce of `bytes`, in this class: each sends its
 *  term to all others as DATA (`eager_max` bytes at most), and adds all terms in the
 *  order of the ranks. */
bool coll_exchanges(const struct coll_plan *plan, const struct coll_class *class,
                    uint64_t bytes, uint64_t eager_max);
/** True if the ranks of the plan exchange all-reduces of some size. */
bool coll_may_exchange(const struct coll_plan *plan);
/** Return the share of tree `tree`, as a numerator over 2^32. */
uint64_t coll_share_of(const struct coll_class *class, uint32_t tree);
/** Return the range of tree `tree` in a tensor of `count` elements. All ranges
 *  together are the tensor. */
struct coll_range coll_range_of(const struct coll_class *class, uint32_t tree,
                                uint64_t count, size_t element_bytes);
/** Return the slice size of tree `tree`: class->slice_bytes for the tree with the largest
 *  share, and less in proportion for the others, down to COLL_SLICE_BYTES_MIN. So all
 *  trees have equally many slices, slice i is the same position in each of them, and
 *  flows that start a slice in turn share a link in the proportion of the plan. */
uint32_t coll_slice_bytes(const struct coll_class *class, uint32_t tree);
/** Return the first tree with this root that has a share; class->trees_count: none. */
uint32_t coll_tree_of_root(const struct coll_class *class, int32_t root);
/** True if each of `size` ranks is the root of one tree, and all these have equal shares
 *  of the whole. */
bool coll_has_tree_for_each_root(const struct coll_class *class, uint32_t size);
/** Return the number of slices of a range of `bytes`: 1 for an empty range and one
 *  that travels as DATA (`eager_max` at most); 0: more than COLL_SLICES_MAX. */
uint32_t coll_slices_of(uint64_t bytes, uint32_t slice_bytes, uint64_t eager_max);

#endif
