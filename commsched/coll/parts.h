/* SPDX-License-Identifier: Apache-2.0 */
/** @file parts.h
 *  The parts of a collective while it is prepared: each is some elements on one tree, or
 *  between two ranks.
 */
#ifndef COMMSCHED_COLL_PARTS_H
#define COMMSCHED_COLL_PARTS_H

#include "commsched/coll/tree/edges.h"
#include "run.h"

/** The phase of a flow: the last letter of its key. */
enum coll_phase { COLL_UP = 'u', COLL_DOWN = 'd', COLL_LIST = 'l' };

/** Keys that parts share, by tree, direction and peer. The uses of a key are numbered in
 *  the order of the parts, so both ends have the same order. */
struct coll_shared_keys {
    uint32_t peers;   /**< those that take part */
    tryst_key **keys; /**< NULL: not prepared yet */
};

/** Allocate room for parts and the keys of their flows. */
tryst_status coll_parts_alloc(tryst_coll *coll, uint64_t parts, uint64_t flows);
/** Append a part of `range`, without flows yet. With a text for tryst_last_error. */
tryst_status coll_part_add(tryst_coll *coll, struct coll_range range,
                           uint32_t slice_bytes, struct coll_part **part_p);
/** Append a flow to the last part: from `peer`, or to it. `shared` NULL: the key is this
 *  flow's alone. */
tryst_status coll_flow_add(tryst_coll *coll, uint32_t tree, enum coll_phase phase,
                           int32_t peer, bool sends, struct coll_shared_keys *shared);
/** Append the flows of `edges` in the order of run.h. */
tryst_status coll_phase_add(tryst_coll *coll, struct coll_part *part, uint32_t tree,
                            enum coll_phase phase, const struct coll_edges *edges,
                            struct coll_shared_keys *shared);
/** Give a part that adds private memory for its sums. */
void coll_private_place(tryst_coll *coll, struct coll_part *part);

/** Make the parts of `coll`. */
tryst_status coll_parts_make(tryst_coll *coll, const struct coll_plan *plan);

#endif
