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
/** Set the pace of the lane to `rank`, in the progress domain: `bytes_per_s` (0: no pace)
 *  is this ordered pair's share of a link of `link_bytes_per_s` in the plan. TRYST_OK,
 *  TRYST_E_NOMEM. */
tryst_status rendezvous_group_pace(tryst_group *group, int rank, uint64_t bytes_per_s,
                                   uint64_t link_bytes_per_s);
/** Call `fn` for each counter until a call does not return 0. Returns the result of the
 *  last call. */
int rendezvous_counters_visit(const struct rendezvous *rdv,
                              int (*fn)(void *arg, const char *name, uint64_t value),
                              void *arg);

#endif
