/* SPDX-License-Identifier: Apache-2.0 */
/** @file membership.h
 *  This rank in its group: joining and leaving (membership.c). All in the progress
 *  domain, except rendezvous_forked.
 */
#ifndef TRYST_RENDEZVOUS_MEMBERSHIP_H
#define TRYST_RENDEZVOUS_MEMBERSHIP_H

#include <stdbool.h>
#include <stddef.h>

#include "core/text/err.h"

struct rendezvous;
struct tryst_group;

/** Open the group in the engine: take `group` (roster filled in), make room for its
 *  peers, and connect to the control tree. TRYST_OK or TRYST_E_NOMEM. */
tryst_status rendezvous_group_open(struct rendezvous *rdv, struct tryst_group *group,
                                   struct err *err);
/** Leave the group, in this order, with pass_run (and the poller) between the
 *  steps:
 *  leave:       cancel everything, answer CLOSED from now on; until quiet, or a deadline
 *  leave_send:  send LEAVE to all; until `read`: they have read this rank's last frames,
 *               or a deadline
 *  cut:         close every endpoint and link; until gone
 *  close:       free the peers. */
void rendezvous_group_leave(struct rendezvous *rdv);
bool rendezvous_group_quiet(const struct rendezvous *rdv);
bool rendezvous_group_read(const struct rendezvous *rdv);
void rendezvous_group_leave_send(struct rendezvous *rdv);
void rendezvous_group_cut(struct rendezvous *rdv);
bool rendezvous_group_gone(const struct rendezvous *rdv);
/** List the peers with endpoints that are not closed: "rank 1 (ucx), rank 3 (ucx)". */
void rendezvous_group_held(const struct rendezvous *rdv, char *text, size_t capacity);
void rendezvous_group_close(struct rendezvous *rdv);

/** Close every socket of the group in a forked child (async-signal-safe). */
void rendezvous_forked(struct rendezvous *rdv);

#endif
