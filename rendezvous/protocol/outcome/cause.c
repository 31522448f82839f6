/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Causes of failures in operations and in records; see cause.h.
 *
 * Invariant: a cause from a record names a rank of the group, and a status with which an
 * operation may end.
 */
#include "cause.h"

#include "core/memory/alloc.h"
#include "core/text/status.h"
#include "rendezvous/op/engine.h"
#include "rendezvous/peer/group.h"
#include "rendezvous/peer/peer.h"

/* ---- of operations ----------------------------------------------------------------- */

struct cause cause_own(const struct rendezvous *rdv, tryst_status status)
{
    return (struct cause){status, status == TRYST_OK ? -1 : rdv->group->roster.rank,
                          status};
}

struct cause op_cause(const tryst_op *op, tryst_status status)
{
    struct cause cause = cause_own(op->rdv, op_peer_status(status));
    if (op->origin_rank >= 0)
        cause.origin_rank = op->origin_rank;
    cause.origin_status =
        op->reported ? op->origin_status : (int32_t)op_origin_status(op, status);
    return cause;
}

void op_origin_set(tryst_op *op, struct cause cause, const char *text)
{
    op->origin_rank = cause.origin_rank;
    op->origin_fail =
        cause.origin_status == cause.status ? TRYST_OK : cause.origin_status;
    if (text && !op->text)
        op->text = mem_strdup(text);
}

void op_cause_set(tryst_op *op, struct cause cause, const char *text)
{
    op_origin_set(op, cause, text);
    op->fail = cause.status;
}

/* ---- in records -------------------------------------------------------------------- */

struct cause cause_of_ends(const tryst_op *op, struct cause cause)
{
    bool by_third = op->shaped || cause.status == TRYST_E_ABORTED;
    bool by_this = cause.origin_rank == op->rdv->group->roster.rank ||
                   (op->fail != TRYST_OK && cause.origin_rank == op->origin_rank);
    if (!by_third && !by_this)
        cause.origin_rank = op->peer->rank;
    return cause;
}

static struct cause cause_read(const struct peer *peer, const tryst_op *op,
                               tryst_status status, int32_t origin_rank,
                               int32_t origin_status)
{
    bool known = status_is_outcome((tryst_status)origin_status);
    struct cause cause = {status, origin_rank >= 0 ? origin_rank : peer->rank,
                          known ? (tryst_status)origin_status : status};
    return op ? cause_of_ends(op, cause) : cause;
}

struct cause cause_in_answer(const struct peer *peer, const tryst_op *op,
                             const struct record_answer *answer)
{
    tryst_status status = answer->header.status;
    /* A DONE with TRYST_E_MISMATCH carries the receive's dtype in place of the origin's
     * status (shape.h). */
    bool shape = status == TRYST_E_MISMATCH && answer->header.type == RECORD_DONE;
    return cause_read(peer, op, status, answer->origin_rank,
                      shape ? (int32_t)status : answer->origin_status);
}

struct cause cause_in_want(const struct peer *peer, const struct record_want *want)
{
    return cause_read(peer, NULL, want->header.status, want->priority,
                      (int32_t)want->bytes);
}

struct cause cause_in_data(const tryst_op *op, tryst_status status,
                           const struct record_failure *failure)
{
    return cause_read(op->peer, op, status, failure->origin_rank, failure->origin_status);
}

void cause_put_answer(struct record_answer *answer, struct cause cause)
{
    answer->header.status = cause.status;
    answer->origin_rank = cause.origin_rank;
    answer->origin_status = cause.origin_status;
}

void cause_put_want(struct record_want *want, struct cause cause)
{
    want->header.status = cause.status;
    want->priority = cause.origin_rank;
    want->bytes = (uint32_t)cause.origin_status;
}

void cause_put_data(struct record_failure *failure, struct cause cause)
{
    failure->origin_rank = cause.origin_rank;
    failure->origin_status = cause.origin_status;
}
