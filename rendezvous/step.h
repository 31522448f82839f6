/* SPDX-License-Identifier: Apache-2.0 */
/** @file step.h
 *  A step: the user's handle of a scope.
 */
#ifndef TRYST_RENDEZVOUS_STEP_H
#define TRYST_RENDEZVOUS_STEP_H

#include <stdatomic.h>

#include "rendezvous/match/scopes.h"
#include "rendezvous/op/op.h"

struct tryst_step {
    struct submission open;
    struct submission abort;
    struct submission close;
    struct tryst_group *group;
    struct rendezvous *rdv;
    uint64_t id;
    struct scope *scope; /**< progress domain; before step_open_run: the prepared scope */
    tryst_op *close_op;  /**< OP_STEP_CLOSE if the user wants one, or NULL */
    /** TRYST_OK, or TRYST_E_ABORTED once the abort is visible. */
    _Atomic(int32_t) status;
    _Atomic(bool) abort_requested;
    /** True: the origin and the text were written (release) and do not change any
     *  more. */
    _Atomic(bool) described;
    int32_t origin_status;
    int32_t origin_rank;
    char text[ABORT_TEXT_BYTES];
    /** Arguments of tryst_step_abort, written before `status` (release) by the one
     *  thread that set abort_requested. */
    int32_t requested_status;
    char requested_text[ABORT_TEXT_BYTES];
};

/** Fail the operations of a scope that was aborted, and make the cause readable from its
 *  step. */
void step_aborted(struct scope *scope);
/** Close the scope on this side: answer parked WANTs, and fail the pending operations
 *  with `status` and `text`. */
void scope_close(struct rendezvous *rdv, struct scope *scope, tryst_status status,
                 const char *text);

#endif
