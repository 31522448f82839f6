/* SPDX-License-Identifier: Apache-2.0 */
/** @file group_info.h
 *  Queries on a group for users, and the engine's counters (group_info.c).
 */
#ifndef TRYST_RENDEZVOUS_GROUP_INFO_H
#define TRYST_RENDEZVOUS_GROUP_INFO_H

#include <stdint.h>

#include "tryst/tryst.h"

struct rendezvous;

/** Return the context that opened the group. Any thread. */
tryst_ctx *rendezvous_group_ctx(const tryst_group *group);
/** Describe a peer, for tryst_group_peer. Call in the progress domain. */
tryst_status rendezvous_group_peer(const tryst_group *group, int rank,
                                   tryst_peer_info *info_p);
/** Call `fn` for each counter until a call does not return 0. Returns the result of the
 *  last call. */
int rendezvous_counters_visit(const struct rendezvous *rdv,
                              int (*fn)(void *arg, const char *name, uint64_t value),
                              void *arg);

#endif
