/* SPDX-License-Identifier: Apache-2.0 */
/** @file parts.h
 *  The parts of a collective that is being prepared: each part is a range of elements on
 *  one tree, or between two ranks.
 */
#ifndef TRYST_COLLECTIVES_PARTS_H
#define TRYST_COLLECTIVES_PARTS_H

#include "run.h"

/** Make the parts of `coll`: one for each tree of the tensor; of all-gather and
 *  reduce-scatter, for each root and each tree of its block; of all-to-all, gather and
 *  scatter, for each pair. Writes a text for tryst_last_error. */
tryst_status coll_parts_make(tryst_coll *coll, const struct coll_plan *plan);

#endif
