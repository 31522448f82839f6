/* SPDX-License-Identifier: Apache-2.0 */
/** @file flow_op.h
 *  Functions of the protocol for operations that move a flow (flow.h): op->flow is not
 *  NULL until the operation is reported.
 */
#ifndef TRYST_RENDEZVOUS_PROTOCOL_FLOW_OP_H
#define TRYST_RENDEZVOUS_PROTOCOL_FLOW_OP_H

#include "flow.h"
#include "recv_run.h"
#include "rendezvous/op/engine.h"

/** True if `op` is a send of a small flow that is not ready. The send has its number and
 *  is in the table. A WANT for it waits beside it, unless the WANT was given up or is of
 *  a different collective. */
static inline bool flow_is_held(const tryst_op *op)
{
    return __builtin_expect(op->flow != NULL, 0) && op->kind == OP_SEND &&
           !op->flow->ready && op->state == OP_POSTED &&
           op->bytes <= op->rdv->set.eager_max_bytes;
}

/** True if the flow of the receive, if any, permits another posted slice. */
static inline bool flow_may_post(const tryst_op *op, const struct recv_run *run)
{
    const struct flow *flow = op->flow;
    return __builtin_expect(!flow, 1) ||
           (op->fail == TRYST_OK &&
            (!flow->ops->place || run->next < flow->slices_announced));
}

/** Call `ended`: `op` has been reported. */
void flow_op_ended(tryst_op *op);

/** Copy the flow's ready count to the transfer: the send has met its WANT. */
void flow_matched(tryst_op *op);
/** True if the OFFER of the send is still needed: more slices are ready than posted, or
 *  the send has no WANT. */
bool flow_offer_is_due(const tryst_op *op);
/** Note that the transport no longer reads slice `index` of the send. */
void flow_slice_sent(tryst_op *op, uint32_t index);

/** Handle an OFFER for a receive that has a run. */
void flow_offered(tryst_op *op, uint32_t ready);
/** Request memory for the next slice, once. True: the slice has memory. */
bool flow_slice_place(tryst_op *op, struct recv_run *run);
/** Note that slice `index` of the receive is in place. */
void flow_slice_arrived(tryst_op *op, uint32_t index);
/** Give the payload of a DATA to the receive's flow. Returns TRYST_OK or
 *  TRYST_E_MISMATCH. */
tryst_status flow_deliver(tryst_op *op, const void *payload, size_t bytes);

#endif
