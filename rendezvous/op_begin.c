/* SPDX-License-Identifier: Apache-2.0 */
/* Operations that do not start; see op_begin.h. */
#include "op_begin.h"

#include "rendezvous/peer/abort.h"

bool op_begin_refuse(tryst_op *op)
{
    const char *text = NULL;
    struct cause cause = op_refusal(op->scope, op->peer, &text);
    int32_t here = op->rdv->group->roster.rank;
    op_report(op, cause.status, cause.origin_rank < 0 ? here : cause.origin_rank,
              cause.origin_status, text);
    op_end(op);
    return false;
}

bool op_begin_fail_nomem(tryst_op *op)
{
    struct rendezvous *rdv = op->rdv;
    int32_t rank = rdv->group->roster.rank;
    uint64_t step_id = op->step_id;
    op_report(op, TRYST_E_NOMEM, rank, TRYST_E_NOMEM,
              "cannot queue the operation: out of memory for its key, peer or deadline");
    op_end(op);
    rendezvous_abort(
        rdv, step_id, TRYST_E_NOMEM, rank, clock_wall_ns(),
        "cannot queue an operation: out of memory for its key, peer or deadline", NULL);
    return false;
}
