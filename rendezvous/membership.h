/* SPDX-License-Identifier: Apache-2.0 */
/** @file membership.h
 *  This rank in its group: joining and leaving (membership.c). All in the progress
 *  domain, except rendezvous_forked.
 */
#ifndef TRYST_RENDEZVOUS_MEMBERSHIP_H
#define TRYST_RENDEZVOUS_MEMBERSHIP_H

#include <stddef.h>

#include "core/text/err.h"
#include "rendezvous/op/leave.h"

struct rendezvous;
struct tryst_group;

/** Open the group in the engine: take `group` (roster filled in), make room for its
 *  peers, and connect to the control tree. TRYST_OK or TRYST_E_NOMEM. */
tryst_status rendezvous_group_open(struct rendezvous *rdv, struct tryst_group *group,
                                   struct err *err);
/** Leave the group: begin, or go on to the next state if the present one (op/leave.h) has
 *  had its effect or its time is over. Returns the state. Called between passes until it
 *  returns LEAVE_DONE. */
enum leave_state rendezvous_leave_poll(struct rendezvous *rdv);
/** List the peers with endpoints that are not closed: "rank 1 (ucx), rank 3 (ucx)". */
void rendezvous_group_held(const struct rendezvous *rdv, char *text, size_t capacity);
/** Free the peers. The state is LEAVE_DONE. */
void rendezvous_group_close(struct rendezvous *rdv);

/** Close every socket of the group in a forked child (async-signal-safe). */
void rendezvous_forked(struct rendezvous *rdv);

#endif
