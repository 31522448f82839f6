/* SPDX-License-Identifier: Apache-2.0 */
/** @file shape.h
 *  Shapes in texts: the text of TRYST_E_MISMATCH names the shapes of both ends.
 *
 *  Only one end sees both shapes. The text travels with the failure (cause.h).
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

/** Give the receive `op` the text of a refusal, unless it has a text: its alloc callback
 *  provided no room for `shape`. */
void op_refusal_explain(tryst_op *op, struct shape shape);

/** True if the alloc callback of `op` was called and provided no room. */
static inline bool op_shape_was_refused(const tryst_op *op)
{
    return op->alloc && !op->tensor.data && op->tensor.dtype != TRYST_DTYPE_INVALID;
}

#endif
