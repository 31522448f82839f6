/* SPDX-License-Identifier: Apache-2.0 */
/* Which outcomes of a send and of the receive that it meets are legal together, after the manual
 * (tryst/tryst.h). Random tests draw what is done to each end; this judges what both ends said.
 *
 * One idea: a pure function of what was drawn and of what was said. A row of the table lets one end say
 * one status; three rules hold the two ends together. What no rule allows is a fault. */
#ifndef TRYST_TESTS_OUTCOMES_H
#define TRYST_TESTS_OUTCOMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tryst/status.h>

enum { OUTCOME_UNSEEN = -1 }; /* the end's status while nobody has reported it */

/* What is known of one end, and may have ended it. */
enum outcome_fact {
    OUTCOME_SUBMITTED = 1,
    OUTCOME_CANCEL = 2,    /* tryst_op_cancel was called */
    OUTCOME_DEADLINE = 4,  /* it had a deadline */
    OUTCOME_CLOSE = 8,     /* its step was closed while it may have been pending */
    OUTCOME_PASSED = 16,   /* its rank closed the step at any time, or passed over it */
    OUTCOME_ABORT = 32,    /* the step was aborted, here or elsewhere */
    OUTCOME_PEER_DIED = 64 /* the other end's rank did */
};
enum { OUTCOME_GAVE_UP = OUTCOME_CANCEL | OUTCOME_DEADLINE | OUTCOME_CLOSE };

struct outcome_end {
    uint32_t facts;
    int32_t status;
    uint32_t calls; /* of its callback */
};

/* `met`: what both ends say when nothing stops them: OK, DEAD, MISMATCH, or what the receive's
 * allocation answered. With that, `refused`, the receive gives up, and the send may have done so too. */
struct outcome_pair {
    struct outcome_end send, recv;
    int32_t met;
    bool refused;
};

/* One end may say `status` if it has one of `own` and the other end one of `peer` (0: whatever it has),
 * all of `peer_all` and none of `peer_not`. `cause`: what ended the pair began here. */
struct outcome_row {
    uint32_t own, peer, peer_all, peer_not;
    int32_t status;
    bool cause;
    const char *manual;
};

static const struct outcome_row outcome_rows[] = {
    {OUTCOME_CANCEL, 0, 0, 0, TRYST_E_CANCELED, true, "tryst_op_cancel: CANCELED"},
    {OUTCOME_DEADLINE, 0, 0, 0, TRYST_E_DEADLINE, true, "deadline_ns: DEADLINE"},
    {OUTCOME_CLOSE, 0, 0, 0, TRYST_E_CANCELED, true,
     "tryst_step_close: cancel what is pending"},
    {0, OUTCOME_CANCEL | OUTCOME_CLOSE, 0, 0, TRYST_E_CANCELED, false,
     "tryst_op_cancel: its counterpart ends with CANCELED too"},
    {0, OUTCOME_DEADLINE, 0, 0, TRYST_E_DEADLINE, false,
     "deadline_ns: its counterpart ends with DEADLINE too"},
    {0, OUTCOME_GAVE_UP, OUTCOME_PASSED, 0, TRYST_E_CLOSED, false,
     "tryst_step_close: a peer's record for a closed step is answered \"closed\""},
    {0, 0, OUTCOME_PASSED, OUTCOME_SUBMITTED, TRYST_E_CLOSED, false,
     "the same, and the counterpart was never submitted"},
    {OUTCOME_ABORT, 0, 0, 0, TRYST_E_ABORTED, true,
     "tryst_step_abort: fails all pending operations, on every rank"},
    {OUTCOME_PEER_DIED, 0, 0, 0, TRYST_E_PEER, true, "a rank died"},
};

static inline bool outcome_row_allows(const struct outcome_row *row,
                                      const struct outcome_end *end,
                                      const struct outcome_end *peer)
{
    return end->status == row->status && (!row->own || end->facts & row->own) &&
           (!row->peer || peer->facts & row->peer) &&
           (peer->facts & row->peer_all) == row->peer_all &&
           !(peer->facts & row->peer_not);
}

/* Whether the end may say what it says; `*cause_p`: and may have been what ended the pair. */
static inline bool outcome_may_say(const struct outcome_end *end,
                                   const struct outcome_end *peer, bool *cause_p)
{
    bool may = false;
    for (size_t i = 0; i < sizeof outcome_rows / sizeof outcome_rows[0]; i++) {
        if (!outcome_row_allows(&outcome_rows[i], end, peer))
            continue;
        may = true;
        *cause_p = *cause_p || outcome_rows[i].cause;
    }
    return may;
}

/* What is wrong with one end by itself; NULL: nothing. */
static inline const char *outcome_end_fault(const struct outcome_end *end)
{
    if (!(end->facts & OUTCOME_SUBMITTED))
        return end->status == OUTCOME_UNSEEN && !end->calls
                   ? NULL
                   : "it was not submitted, and yet it ended";
    if (end->status == OUTCOME_UNSEEN || end->status == TRYST_IN_PROGRESS)
        return "it has not ended";
    return end->calls == 1 ? NULL : "its callback did not run exactly once";
}

/* NULL: legal. Else the rule that does not hold. */
static inline const char *outcome_fault(const struct outcome_pair *pair)
{
    const struct outcome_end *send = &pair->send, *recv = &pair->recv;
    bool submitted = send->facts & recv->facts & OUTCOME_SUBMITTED, cause = false;
    bool torn = send->status == TRYST_E_ABORTED || send->status == TRYST_E_PEER;
    const char *fault = outcome_end_fault(send);
    if (!fault)
        fault = outcome_end_fault(recv);
    if (fault)
        return fault;
    bool sent = submitted && send->status == pair->met;
    bool received = submitted && recv->status == pair->met;
    if (sent && received)
        return NULL;
    if (sent)
        return "the send says that its tensor was taken, and its receive does not";
    /* The bytes had come, their answer had not. */
    if (received && !torn && !pair->refused)
        return "the receive took the tensor, and its send says otherwise";
    if (send->facts & OUTCOME_SUBMITTED && !outcome_may_say(send, recv, &cause))
        return "nothing that was done lets the send say so";
    if (!received && recv->facts & OUTCOME_SUBMITTED &&
        !outcome_may_say(recv, send, &cause))
        return "nothing that was done lets the receive say so";
    return cause || received || !submitted ? NULL
                                           : "each end says that the other gave up";
}
/* The same where either rank may have closed its group at any moment, which ends what it has and what the others
 * have with it: each end has ended, once, and no send was taken by a receive that did not take it. */
static inline const char *outcome_left_fault(const struct outcome_pair *pair)
{
    bool received = pair->recv.facts & OUTCOME_SUBMITTED && pair->recv.status == TRYST_OK;
    const char *fault = outcome_end_fault(&pair->send);
    if (!fault)
        fault = outcome_end_fault(&pair->recv);
    if (!fault && pair->send.facts & OUTCOME_SUBMITTED && pair->send.status == TRYST_OK &&
        !received)
        fault = "the send says that its tensor was taken, and its receive does not";
    return fault;
}

#endif
