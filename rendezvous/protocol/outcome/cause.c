/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Causes of failures in operations and in records; see cause.h.
 *
 * Invariant: a cause from a record names a rank of the group, and a status with which an
 * operation may end.
 */
#include "cause.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/memory/alloc.h"
#include "core/text/status.h"
#include "core/text/text.h"
#include "rendezvous/op/engine.h"
#include "rendezvous/peer/abort.h"
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
    if (text)
        op_text_set(op, text);
}

void op_cause_set(tryst_op *op, struct cause cause, const char *text)
{
    op_origin_set(op, cause, text);
    op->fail = cause.status;
}

/* ---- texts ------------------------------------------------------------------------- */

/* True if texts of this status name their ranks, so they can be read at any rank. */
static bool status_names_ranks(tryst_status status)
{
    return status == TRYST_E_MISMATCH || status == TRYST_E_ABORTED ||
           (status >= TRYST_E_PEER && status < TRYST_E_ABORTED);
}

const char *op_cause_text(const tryst_op *op, struct cause cause,
                          char text[static CAUSE_TEXT_BYTES])
{
    int32_t rank = op->rdv->group->roster.rank;
    /* The operation may have the text of an earlier failure. */
    bool aborted = cause.status == TRYST_E_ABORTED && op->scope->abort_status != TRYST_OK;
    const char *reason = aborted ? op->scope->abort_text : op_reason(op);
    text[0] = '\0';
    if (!reason || cause.origin_status == TRYST_E_CONTEXT)
        return text; /* the text describes the close at this rank */
    if (cause.origin_rank == rank && !status_names_ranks(cause.status))
        (void)text_append(text, CAUSE_TEXT_BYTES, "rank %" PRId32 ": ", rank);
    (void)text_append(text, CAUSE_TEXT_BYTES, "%s", reason);
    return text;
}

const char *cause_sentence(struct cause cause, struct wire_text peer_text,
                           char text[static CAUSE_TEXT_BYTES])
{
    static const char cancels[] = "rank %" PRId32 " has cancelled its end",
                      late[] = "the deadline of rank %" PRId32 " has passed",
                      closes[] = "rank %" PRId32 " has closed the step",
                      leaves[] = "rank %" PRId32 " has left the group";
    const char *format = cause.status == TRYST_E_CANCELED   ? cancels
                         : cause.status == TRYST_E_DEADLINE ? late
                         : cause.status == TRYST_E_CLOSED   ? closes
                         : cause.status == TRYST_E_LEFT     ? leaves
                                                            : NULL;
    if (peer_text.data &&
        text_escape(peer_text.data, peer_text.bytes, text, CAUSE_TEXT_BYTES))
        return text;
    if (!format)
        return NULL;
    (void)snprintf(text, CAUSE_TEXT_BYTES, format, cause.origin_rank);
    return text;
}

char *peer_text_keep(struct peer *peer, struct wire_text peer_text)
{
    char text[CAUSE_TEXT_BYTES];
    size_t bytes = peer_text.data
                       ? text_escape(peer_text.data, peer_text.bytes, text, sizeof text)
                       : 0;
    if (!bytes || peer->text_bytes + bytes > PEER_TEXTS_MAX)
        return NULL;
    char *kept = mem_strdup(text);
    peer->text_bytes += kept ? (uint32_t)bytes : 0;
    return kept;
}

void peer_text_drop(struct peer *peer, char *text)
{
    if (text)
        peer->text_bytes -= (uint32_t)strlen(text);
    mem_free(text);
}

void op_cause_explain(tryst_op *op, struct cause cause, struct wire_text peer_text)
{
    char text[CAUSE_TEXT_BYTES];
    const char *sentence = cause_sentence(cause, peer_text, text);
    if (sentence)
        op_text_set(op, sentence);
    /* A send may have this status from the consumer's allocate-callback. */
    if (cause.status == TRYST_E_ABORTED && op->kind == OP_RECV)
        abort_report(op->rdv, op->scope, cause, sentence ? sentence : "", op->peer->rank);
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
    /* Users choose the status of an abort. */
    bool known = status == TRYST_E_ABORTED
                     ? origin_status >= TRYST_E_INVALID
                     : status_is_outcome((tryst_status)origin_status);
    struct cause cause = {status, origin_rank >= 0 ? origin_rank : peer->rank,
                          known ? (tryst_status)origin_status : status};
    return op ? cause_of_ends(op, cause) : cause;
}

struct cause cause_in_answer(const struct peer *peer, const tryst_op *op,
                             const struct record_answer *answer)
{
    return cause_read(peer, op, answer->header.status, answer->origin_rank,
                      answer->origin_status);
}

struct cause cause_in_want(const struct peer *peer, const struct record_want *want)
{
    return cause_read(peer, NULL, want->header.status, want->priority,
                      (int32_t)want->bytes);
}

struct cause cause_in_data(const struct peer *peer, const tryst_op *op,
                           tryst_status status, const struct record_failure *failure)
{
    return cause_read(peer, op, status, failure->origin_rank, failure->origin_status);
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
