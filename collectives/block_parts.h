/* SPDX-License-Identifier: Apache-2.0 */
/** @file block_parts.h
 *  The parts of collectives of blocks.
 */
#ifndef TRYST_COLLECTIVES_BLOCK_PARTS_H
#define TRYST_COLLECTIVES_BLOCK_PARTS_H

#include "run.h"

/** Make the parts of `coll`: for all-gather and reduce-scatter one part for each root
 *  and each tree of its block, for all-to-all, gather and scatter one part for each
 *  pair. */
tryst_status coll_block_parts_make(tryst_coll *coll, const struct coll_plan *plan);

#endif
