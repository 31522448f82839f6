/* SPDX-License-Identifier: Apache-2.0 */
/** @file cause.h
 *  The cause of a failure as two ranks exchange it: the status with which the other end
 *  ends, the rank where the failure began, the status reported there, and a text. CANCEL,
 *  CANCELED, CLOSED, a failed DONE, a failed DATA and a WANT with RECORD_VOID carry a
 *  cause. All in the progress domain.
 *
 *  The text is the origin's: a rank that forwards a failure forwards the text.
 */
#ifndef TRYST_RENDEZVOUS_PROTOCOL_OUTCOME_CAUSE_H
#define TRYST_RENDEZVOUS_PROTOCOL_OUTCOME_CAUSE_H

#include "rendezvous/op/op.h"
#include "rendezvous/protocol/wire/wire.h"
#include "rendezvous/protocol/wire/wire_decode.h"

struct peer;

/** Return the cause of a failure that began at this rank; TRYST_OK: no failure. */
struct cause cause_own(const struct rendezvous *rdv, tryst_status status);
/** Return the cause of `op`, which failed or is failing with `status`, for its other
 *  end. */
struct cause op_cause(const tryst_op *op, tryst_status status);
/** Set the cause with which `op` is failing. `text` (NULL: none) is copied unless `op`
 *  has one. */
void op_cause_set(tryst_op *op, struct cause cause, const char *text);
/** Set the origin and the text, but not the status with which `op` is failing: `op` fails
 *  only once the consumer has dropped its DATA. */
void op_origin_set(tryst_op *op, struct cause cause, const char *text);

/** Return `cause` for the failure of `op`, as its peer has reported it. Except for an
 *  abort, a transfer that is no edge of a collective fails at one of its two ends. So an
 *  origin that is neither, nor the one that this end has reported, is replaced by the
 *  peer: no rank can blame a third. */
struct cause cause_of_ends(const tryst_op *op, struct cause cause);
/** Return the cause in a record of `peer` about `op` (NULL: none yet; cause_of_ends
 *  follows). An origin of -1 is replaced by the rank of `peer`, and an origin status with
 *  which no operation can end by the record's status. */
struct cause cause_in_answer(const struct peer *peer, const tryst_op *op,
                             const struct record_answer *answer);
struct cause cause_in_want(const struct peer *peer, const struct record_want *want);
struct cause cause_in_data(const struct peer *peer, const tryst_op *op,
                           tryst_status status, const struct record_failure *failure);

/** Bytes of the text of a cause, with its terminator. */
enum { CAUSE_TEXT_BYTES = RECORD_TEXT_MAX };
/** Write the text for a record about the failure of `op`; `cause`: the cause for the
 *  other end. "": none. Returns `text`. */
const char *op_cause_text(const tryst_op *op, struct cause cause,
                          char text[static CAUSE_TEXT_BYTES]);
/** Write a sentence for a cause that a record of a peer has reported: `peer_text`, the
 *  record's text, made safe, or else the sentence for status and origin. Returns `text`;
 *  NULL: there is none, the text of the status suffices. */
const char *cause_sentence(struct cause cause, struct wire_text peer_text,
                           char text[static CAUSE_TEXT_BYTES]);
/** The most bytes of texts that are kept for one peer until they are needed. */
enum { PEER_TEXTS_MAX = 64 << 10 };
/** Keep a text for the peer, made safe. NULL: there is none, no memory, or no room. */
char *peer_text_keep(struct peer *peer, struct wire_text peer_text);
/** Free a kept text; NULL is allowed. */
void peer_text_drop(struct peer *peer, char *text);
static inline struct wire_text peer_text_of(const char *text)
{
    return (struct wire_text){text, text ? strlen(text) : 0};
}
/** Give `op` this sentence, unless `op` has a text. */
void op_cause_explain(tryst_op *op, struct cause cause, struct wire_text peer_text);

/** Write a cause into a record. */
void cause_put_answer(struct record_answer *answer, struct cause cause);
void cause_put_want(struct record_want *want, struct cause cause);
void cause_put_data(struct record_failure *failure, struct cause cause);

/** Return the status that the origin reported where `op` fails with `status`. */
static inline tryst_status op_origin_status(const tryst_op *op, tryst_status status)
{
    return op->origin_fail != TRYST_OK ? op->origin_fail : status;
}

/** Return the cause with which `op` is failing; status TRYST_OK: it is not failing. */
static inline struct cause op_fail_cause(const tryst_op *op)
{
    return (struct cause){op->fail, op->origin_rank, op_origin_status(op, op->fail)};
}

/** Report `op` with the cause with which it is failing. */
static inline void op_report_fail(tryst_op *op)
{
    op_report(op, op->fail, op->origin_rank, op_origin_status(op, op->fail), op->text);
}

#endif
