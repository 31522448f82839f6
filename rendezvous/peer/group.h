/* SPDX-License-Identifier: Apache-2.0 */
/** @file group.h
 *  The group of all ranks of a job: its roster and one peer per rank.
 */
#ifndef RENDEZVOUS_PEER_GROUP_H
#define RENDEZVOUS_PEER_GROUP_H

#include <pthread.h>
#include <stdint.h>

#include "core/memory/list.h"
#include "rendezvous/bootstrap/roster/roster.h"
#include "tryst/types.h"

struct group_plan;
struct peer;
struct rendezvous;

struct tryst_group {
    tryst_ctx *ctx;
    struct rendezvous *rdv;
    struct roster roster;
    uint8_t cookie[16];
    pthread_mutex_t step_lock; /**< ids are taken and handed in in one order */
    uint64_t steps_end;        /**< 1 + newest id that the user opened; under step_lock */
    /** By rank; our own is the loopback peer. NULL: nothing was to be done with that one yet. */
    struct peer **peers;
    struct list met; /**< peer->node: those that there are, in the order of their need */
    struct group_plan *plan; /**< of the context; NULL: one rank */
    uint64_t *left;          /**< bit per rank: it has left in good order */
};

static inline bool group_has_left(const struct tryst_group *group, int rank)
{
    return group->left[rank / 64] >> rank % 64 & 1;
}

#endif
