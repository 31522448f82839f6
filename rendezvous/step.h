/* SPDX-License-Identifier: Apache-2.0 */
/** @file step.h
 *  The user's side of a scope.
 */
#ifndef RENDEZVOUS_STEP_H
#define RENDEZVOUS_STEP_H

#include <stdatomic.h>

#include "rendezvous/op/op.h"

struct tryst_step {
    struct submission open;
    struct submission abort;
    struct submission close;
    struct tryst_group *group;
    struct rendezvous *rdv;
    uint64_t id;
    struct scope
        *scope; /**< progress domain; before the open was drained: its prepared scope */
    tryst_op *close_op;      /**< OP_STEP_CLOSE that the user asked for, or NULL */
    _Atomic(int32_t) status; /**< TRYST_OK, or TRYST_E_ABORTED once that is visible */
    _Atomic(bool) abort_asked;
    _Atomic(bool)
        described; /**< the fields below are written (release), and never again */
    int32_t origin_status;
    int32_t origin_rank;
    char text[256];
    /* What tryst_step_abort asked for. */
    int32_t asked_status;
    char asked_text[256];
};

/** The scope was aborted: whoever asks the step hears why, and its operations fail. */
void step_aborted(struct scope *scope);
/** Close the scope from our side: answer what peers parked, fail what is pending. */
void scope_close(struct rendezvous *rdv, struct scope *scope, tryst_status status,
                 const char *text);

#endif
