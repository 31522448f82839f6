/* SPDX-License-Identifier: Apache-2.0 */
/** @file group.h
 *  The group of all ranks of a job: its roster and one peer per rank.
 */
#ifndef TRYST_RENDEZVOUS_PEER_GROUP_H
#define TRYST_RENDEZVOUS_PEER_GROUP_H

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
    uint8_t cookie[RANK_COOKIE_BYTES];
    uint64_t run; /**< the run of these ranks, for files and the live page */
    uint8_t secret[RANK_KEY_BYTES]; /**< the secret half of this rank's key */
    /** Held while a step takes its id and is submitted, so both happen in one order. */
    pthread_mutex_t step_lock;
    uint64_t steps_end; /**< 1 + newest id that the user opened; under step_lock */
    /** By rank; this rank's own entry is the loopback peer. NULL: not needed yet. */
    struct peer **peers;
    /** peer->node: the peers that exist, in the order of their first use. */
    struct list met;
    struct group_plan *plan; /**< set by the context; NULL: the group has one rank */
    /** One bit per rank: the rank has left in good order, as itself or another rank has
     *  reported since the rank's last HELLO. */
    uint64_t *left;
    /** By origin: the number of aborts of steps that are not open here yet, as reported
     *  by other ranks. */
    uint16_t *passed_aborts;
};

static inline bool group_has_left(const struct tryst_group *group, int rank)
{
    return group->left[rank / 64] >> rank % 64 & 1;
}

#endif
