/* SPDX-License-Identifier: Apache-2.0 */
/** @file membership.h
 *  This rank in its group: it joins, and leaves (membership.c). All in the progress domain, but
 *  rendezvous_forked.
 */
#ifndef RENDEZVOUS_MEMBERSHIP_H
#define RENDEZVOUS_MEMBERSHIP_H

#include <stdbool.h>
#include <stddef.h>

#include "core/text/err.h"

struct rendezvous;
struct tryst_group;

/** Take `group` (roster filled in) and make its peers; connects to the control tree. */
tryst_status rendezvous_group_open(struct rendezvous *rdv, struct tryst_group *group,
                                   struct err *err);
/** Leaving, in this order, with rendezvous_progress (and the poller) between the steps:
 *  leave: cancel everything, answer CLOSED from now on; until quiet (or a deadline)
 *  tell:  LEAVE to all; until they have read our last frames (or a deadline)
 *  cut:   close every endpoint and link; until gone
 *  close: free the peers. */
void rendezvous_group_leave(struct rendezvous *rdv);
bool rendezvous_group_quiet(const struct rendezvous *rdv);
bool rendezvous_group_read(const struct rendezvous *rdv);
void rendezvous_group_leave_send(struct rendezvous *rdv);
void rendezvous_group_cut(struct rendezvous *rdv);
bool rendezvous_group_gone(const struct rendezvous *rdv);
/** Which peers' endpoints have not come to an end: "rank 1 (ucx), rank 3 (ucx)". */
void rendezvous_group_held(const struct rendezvous *rdv, char *text, size_t capacity);
void rendezvous_group_close(struct rendezvous *rdv);

/** In a forked child: close every socket of the group (async-signal-safe). */
void rendezvous_forked(struct rendezvous *rdv);

#endif
