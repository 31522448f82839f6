/* SPDX-License-Identifier: Apache-2.0 */
/** @file map.h
 *  Which elements of a collective's tensor belong to which tree, and how a range is cut into slices.
 *  Pure: both follow from the plan, the count and the dtype alone, so they are the same on all ranks.
 */
#ifndef COMMSCHED_COLL_MAP_H
#define COMMSCHED_COLL_MAP_H

#include <stddef.h>

#include "plan.h"

/** Ranges begin at whole cache lines of the tensor. */
enum { COLL_LINE_BYTES = 64 };
/** Slices of one range, at most: what both ends of a flow accept, also where the last one is whole. */
#define COLL_SLICES_MAX ((UINT64_C(1) << 31) - 2)

struct coll_range {
    uint64_t begin, count; /**< elements */
};

/** Bytes of `count` elements, UINT64_MAX where these are more. */
uint64_t coll_bytes(uint64_t count, size_t element_bytes);
/** The class of collectives of `bytes`. */
const struct coll_class *coll_class_of(const struct coll_plan *plan, uint64_t bytes);
/** The range of tree `tree` of a tensor of `count` elements. All ranges together are the tensor. */
struct coll_range coll_range_of(const struct coll_class *class, uint32_t tree,
                                uint64_t count, size_t element_bytes);
/** Slices of a range of `bytes`: one where it is empty or travels as DATA (at most `eager_max`). 0: more than
 *  COLL_SLICES_MAX. */
uint32_t coll_slices_of(uint64_t bytes, uint32_t slice_bytes, uint64_t eager_max);

#endif
