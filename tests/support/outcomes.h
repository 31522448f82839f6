/* SPDX-License-Identifier: Apache-2.0 */
/* Which outcomes of a send and of its matching receive are legal together, according to
 * the manual (tryst/tryst.h). Random tests draw the facts of each end; these functions
 * check the statuses of both ends.
 *
 * One idea: a pure function of the facts drawn and the statuses reported. A row of the
 * table allows one end to report one status; three rules connect the two ends. Outcomes
 * that no rule allows are a fault. */
#ifndef TRYST_TESTS_SUPPORT_OUTCOMES_H
#define TRYST_TESTS_SUPPORT_OUTCOMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tryst/status.h>

enum { OUTCOME_UNSEEN = -1 }; /* the status of an end that has not been reported */

/** Facts about one end, each of which may have ended it. */
enum outcome_fact {
    OUTCOME_SUBMITTED = 1,
    OUTCOME_CANCEL = 2,   /**< tryst_op_cancel was called */
    OUTCOME_DEADLINE = 4, /**< a deadline was set */
    /** The step was closed while the operation may have been pending. */
    OUTCOME_CLOSE = 8,
    /** The rank closed the step at any time, or opened a later one. */
    OUTCOME_PASSED = 16,
    OUTCOME_ABORT = 32,    /**< the step was aborted, here or elsewhere */
    OUTCOME_PEER_DIED = 64 /**< the rank of the other end died */
};
enum { OUTCOME_GAVE_UP = OUTCOME_CANCEL | OUTCOME_DEADLINE | OUTCOME_CLOSE };

struct outcome_end {
    uint32_t facts;
    int32_t status;
    uint32_t calls; /**< of the callback */
};

/** `met`: the status of both ends without any other event: OK, DEAD, MISMATCH, or the
 *  status of the receive's allocation. With that last one, `refused`, the receive gives
 *  up, and the send may have given up too. */
struct outcome_pair {
    struct outcome_end send, recv;
    int32_t met;
    bool refused;
};

/** One end may report `status` if it has one of the facts `own` (0: any facts), and the
 *  other end has one of `peer` (0: any facts), all of `peer_all` and none of `peer_not`.
 *  `cause`: the event that ended the pair was at this end. */
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

/** True if the end may report its status; sets *cause_p if the event that ended the pair
 *  may have been at this end. */
static inline bool outcome_is_allowed(const struct outcome_end *end,
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

/** Return the fault of one end by itself; NULL: none. */
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

/** Return NULL if the outcomes are legal, else the broken rule. */
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
        return "the send ended as matched, and its receive did not";
    /* Legal if torn: the bytes arrived, and the abort or death came before the
     * acknowledgement. */
    if (received && !torn && !pair->refused)
        return "the receive ended as matched, and its send did not";
    if (send->facts & OUTCOME_SUBMITTED && !outcome_is_allowed(send, recv, &cause))
        return "no event explains the status of the send";
    if (!received && recv->facts & OUTCOME_SUBMITTED &&
        !outcome_is_allowed(recv, send, &cause))
        return "no event explains the status of the receive";
    return cause || received || !submitted ? NULL
                                           : "each end reports that the other gave up";
}
/** Check the ends where either rank may have closed its group at any moment (which ends
 *  its operations and those of the others with it): each end has ended once, and a send
 *  that succeeded has a receive that succeeded. */
static inline const char *outcome_left_fault(const struct outcome_pair *pair)
{
    bool received = pair->recv.facts & OUTCOME_SUBMITTED && pair->recv.status == TRYST_OK;
    const char *fault = outcome_end_fault(&pair->send);
    if (!fault)
        fault = outcome_end_fault(&pair->recv);
    if (!fault && pair->send.facts & OUTCOME_SUBMITTED && pair->send.status == TRYST_OK &&
        !received)
        fault = "the send reports success, and its receive does not";
    return fault;
}

#endif
