/* SPDX-License-Identifier: Apache-2.0 */
/** @file block_parts.h
 *  The parts of collectives of blocks.
 */
#ifndef COMMSCHED_COLL_BLOCK_PARTS_H
#define COMMSCHED_COLL_BLOCK_PARTS_H

#include "run.h"

/** Make the parts of `coll`: of all-gather and reduce-scatter a tree for each root and
 *  each of its block's trees, of all-to-all, gather and scatter one for each pair. */
tryst_status coll_block_parts_make(tryst_coll *coll, const struct coll_plan *plan);

#endif
