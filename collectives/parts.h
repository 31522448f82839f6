/* SPDX-License-Identifier: Apache-2.0 */
/** @file parts.h
 *  The parts of a collective that is being prepared: each part is a range of elements on
 *  one tree, or between two ranks.
 */
#ifndef TRYST_COLLECTIVES_PARTS_H
#define TRYST_COLLECTIVES_PARTS_H

#include "collectives/tree/edges.h"
#include "run.h"

/** The phase of a flow, which is the last letter of the flow's key. */
enum coll_phase { COLL_UP = 'u', COLL_DOWN = 'd', COLL_LIST = 'l' };

/** Keys that parts share, by tree, direction and peer. The uses of a key are numbered
 *  in the order of the parts, which is the same at both ends. */
struct coll_shared_keys {
    uint32_t peers;   /**< number of ranks that take part */
    tryst_key **keys; /**< an entry is NULL until its key is prepared */
};

/** Allocate room for parts and the keys of their flows. */
tryst_status coll_parts_alloc(tryst_coll *coll, uint64_t parts, uint64_t flows);
/** Append a part of `range`, without flows yet. Writes a text for tryst_last_error. */
tryst_status coll_part_add(tryst_coll *coll, struct coll_range range,
                           uint32_t slice_bytes, struct coll_part **part_p);
/** Append a flow to the last part: to `peer` if `sends`, else from `peer`. `shared`
 *  NULL: no other flow has the key. */
tryst_status coll_flow_add(tryst_coll *coll, uint32_t tree, enum coll_phase phase,
                           int32_t peer, bool sends, struct coll_shared_keys *shared);
/** Append the flows of `edges` in the order of run.h. */
tryst_status coll_phase_add(tryst_coll *coll, struct coll_part *part, uint32_t tree,
                            enum coll_phase phase, const struct coll_edges *edges,
                            struct coll_shared_keys *shared);
/** Reserve private memory for the sums of `part` if the part adds and is not a root. */
void coll_private_place(tryst_coll *coll, struct coll_part *part);

/** Make the parts of `coll`. */
tryst_status coll_parts_make(tryst_coll *coll, const struct coll_plan *plan);

#endif
