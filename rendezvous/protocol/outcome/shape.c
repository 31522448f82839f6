/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes of both ends, in texts; see shape.h. */
#include "shape.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "rendezvous/op/engine.h"
#include "rendezvous/peer/group.h"
#include "rendezvous/peer/peer.h"

enum { SHAPE_TEXT_BYTES = 96, TEXT_BYTES = 384 };

/* Describe a collective by the callback of the engine above; without one as "collective
 * 1 (op 2) of 4096 x f32, root 0". */
static void flow_text(const struct rendezvous *rdv, const struct flow_shape *flow,
                      char text[SHAPE_TEXT_BYTES])
{
    if (rdv->coll_calls.shape_text)
        rdv->coll_calls.shape_text(flow, text, SHAPE_TEXT_BYTES);
    else
        (void)snprintf(text, SHAPE_TEXT_BYTES,
                       "collective %u (op %u) of %" PRIu64 " x %s, root %" PRId32,
                       flow->operation, flow->op, flow->count,
                       tryst_dtype_name((tryst_dtype)flow->dtype), flow->root);
}

/* Describe a shape as "4096 x f32", or as bytes if they are not a whole number of
 * elements. */
static void shape_text(const struct rendezvous *rdv, struct shape shape,
                       char text[SHAPE_TEXT_BYTES])
{
    size_t element = tryst_dtype_bytes((tryst_dtype)shape.dtype);
    if (shape.flow)
        flow_text(rdv, shape.flow, text);
    else if (element && shape.bytes % element == 0)
        (void)snprintf(text, SHAPE_TEXT_BYTES, "%" PRIu64 " x %s", shape.bytes / element,
                       tryst_dtype_name((tryst_dtype)shape.dtype));
    else
        (void)snprintf(text, SHAPE_TEXT_BYTES, "%" PRIu64 " bytes of dtype %u",
                       shape.bytes, shape.dtype);
}

/* Set the text of a mismatch: two ranks call different collectives, or one collective
 * with different parameters. */
static void flow_mismatch_explain(tryst_op *op, const char *own, const char *theirs)
{
    char text[TEXT_BYTES];
    (void)snprintf(text, sizeof text,
                   "rank %d has %s, rank %d has %s; give all ranks the same "
                   "collective, count, dtype, reduction and root",
                   op->rdv->group->roster.rank, own, op->peer->rank, theirs);
    op_text_set(op, text);
}

void op_mismatch_explain(tryst_op *op, struct shape other)
{
    char own[SHAPE_TEXT_BYTES], theirs[SHAPE_TEXT_BYTES], text[TEXT_BYTES];
    bool send = op->kind == OP_SEND;
    if (op->text)
        return;
    shape_text(op->rdv, shape_of(op), own);
    shape_text(op->rdv, other, theirs);
    if (op_shape_of(op) && strcmp(own, theirs) == 0) {
        (void)snprintf(text, sizeof text,
                       "ranks %d and %d cut the collective into different slices: their "
                       "groups do not run the same plan",
                       op->rdv->group->roster.rank, op->peer->rank);
        op_text_set(op, text);
        return;
    }
    if (other.flow || op_shape_of(op)) {
        flow_mismatch_explain(op, own, theirs);
        return;
    }
    (void)snprintf(text, sizeof text,
                   "the receive has %s, the send %s; both ends must give the same dtype "
                   "and count",
                   send ? theirs : own, send ? own : theirs);
    op_text_set(op, text);
}

void op_refusal_explain(tryst_op *op, struct shape shape)
{
    char what[SHAPE_TEXT_BYTES], text[TEXT_BYTES];
    if (op->text)
        return;
    shape_text(op->rdv, shape, what);
    (void)snprintf(text, sizeof text,
                   "the alloc callback of rank %d's receive provided no room for %s",
                   op->rdv->group->roster.rank, what);
    op_text_set(op, text);
}
