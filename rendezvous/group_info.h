/* SPDX-License-Identifier: Apache-2.0 */
/** @file group_info.h
 *  What a user may ask a group, and the engine's counters (group_info.c).
 */
#ifndef RENDEZVOUS_GROUP_INFO_H
#define RENDEZVOUS_GROUP_INFO_H

#include <stdint.h>

#include "tryst/tryst.h"

struct rendezvous;

/** The context that opened it. Any thread. */
tryst_ctx *rendezvous_group_ctx(const tryst_group *group);
/** tryst_group_peer, in the progress domain. */
tryst_status rendezvous_group_peer(const tryst_group *group, int rank,
                                   tryst_peer_info *info_p);
/** Pace what goes to `rank`, in the progress domain: `bytes_per_s` is this ordered pair's share of a link of
 *  `link_bytes_per_s` in the plan (0: no pace). TRYST_OK, TRYST_E_NOMEM. */
tryst_status rendezvous_group_pace(tryst_group *group, int rank, uint64_t bytes_per_s,
                                   uint64_t link_bytes_per_s);
/** Call `fn` for each counter, until one call does not return 0; what the last one returned. */
int rendezvous_counters_visit(const struct rendezvous *rdv,
                              int (*fn)(void *arg, const char *name, uint64_t value),
                              void *arg);

#endif
