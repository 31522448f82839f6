/* SPDX-License-Identifier: Apache-2.0 */
/** @file flow_op.h
 *  What the protocol does for operations that move a flow (flow.h): op->flow is not NULL until the operation is
 *  reported.
 */
#ifndef RENDEZVOUS_PROTOCOL_FLOW_OP_H
#define RENDEZVOUS_PROTOCOL_FLOW_OP_H

#include "flow.h"
#include "recv_run.h"
#include "rendezvous/op/engine.h"

/** True if `op` is a send of a small flow that is not ready. It has its number and is in the table. Its WANT waits
 *  beside it, unless the WANT was given up or is of a different collective. */
static inline bool flow_is_held(const tryst_op *op)
{
    return __builtin_expect(op->flow != NULL, 0) && op->kind == OP_SEND &&
           !op->flow->ready && op->state == OP_POSTED &&
           op->bytes <= op->rdv->set.eager_max_bytes;
}

/** True if the next slice of the receive may be posted, as far as its flow goes. */
static inline bool flow_may_post(const tryst_op *op, const struct recv_run *run)
{
    const struct flow *flow = op->flow;
    return __builtin_expect(!flow, 1) ||
           (op->fail == TRYST_OK && (!flow->ops->place || run->next < flow->told));
}

/** Call `ended`: `op` has been reported. */
void flow_op_ended(tryst_op *op);

/** The send meets its WANT: give the transfer its ready count. */
void flow_matched(tryst_op *op);
/** True if more slices of the send are ready than posted: its OFFER is still needed. */
bool flow_offer_is_due(const tryst_op *op);
/** The transport no longer reads slice `index` of the send. */
void flow_slice_sent(tryst_op *op, uint32_t index);

/** An OFFER has come for the receive, which has a run. */
void flow_offered(tryst_op *op, uint32_t ready);
/** Ask for the memory of the next slice, once. True: it is there. */
bool flow_slice_place(tryst_op *op, struct recv_run *run);
/** Slice `index` of the receive is in place. */
void flow_slice_arrived(tryst_op *op, uint32_t index);
/** The receive's payload came as DATA. */
tryst_status flow_take(tryst_op *op, const void *payload, size_t bytes);

#endif
