/* SPDX-License-Identifier: Apache-2.0 */
/** @file shape.h
 *  Shapes in texts and in answers: at both ends, the text of TRYST_E_MISMATCH names the
 *  shapes of both.
 *
 *  Only one end sees both shapes. The other end receives the shape that it lacks with the
 *  failure: the consumer in a failed DATA (record_failure), the producer in DONE (`upto`
 *  and `posted` are the low and the high half of the receive's bytes, `origin_status` is
 *  its dtype). The shape of a collective's edge travels with the name of the DATA, or
 *  behind the DONE.
 */
#ifndef TRYST_RENDEZVOUS_PROTOCOL_OUTCOME_SHAPE_H
#define TRYST_RENDEZVOUS_PROTOCOL_OUTCOME_SHAPE_H

#include <stdint.h>

#include "rendezvous/op/op.h"
#include "rendezvous/protocol/wire/wire.h"

struct shape {
    uint64_t bytes;
    uint8_t dtype; /**< any value, if it came from a peer */
    /** The shape of a collective's edge (any values, if it came from a peer), or NULL. */
    const struct flow_shape *flow;
};

/** Return the shape of the collective's edge that `op` moves; NULL: an ordinary
 *  operation. */
static inline const struct flow_shape *op_shape_of(const tryst_op *op)
{
    return op->shaped ? &op->shape : NULL;
}

static inline struct shape shape_of(const tryst_op *op)
{
    return (struct shape){op->bytes, (uint8_t)op->tensor.dtype, op_shape_of(op)};
}

/** Give `op`, of either end, the text of a mismatch with `other`, unless it has a
 *  text. */
void op_mismatch_explain(tryst_op *op, struct shape other);

/** Give `op` the text of a refusal, unless it has a text: the alloc callback of this
 *  receive, or of the receive that this send has matched, provided no room for
 *  `shape`. */
void op_refusal_explain(tryst_op *op, struct shape shape);

/** True if the alloc callback of `op` was called and provided no room. */
static inline bool op_shape_was_refused(const tryst_op *op)
{
    return op->alloc && !op->tensor.data && op->tensor.dtype != TRYST_DTYPE_INVALID;
}

/** Write the receive's shape into a DONE of TRYST_E_MISMATCH, or read it. */
void answer_shape_put(struct record_answer *done, struct shape shape);
struct shape answer_shape(const struct record_answer *done);

#endif
