/* SPDX-License-Identifier: Apache-2.0 */
/** @file group.h
 *  The group of all ranks of a job: its roster and one peer per rank.
 */
#ifndef RENDEZVOUS_PEER_GROUP_H
#define RENDEZVOUS_PEER_GROUP_H

#include <pthread.h>
#include <stdint.h>

#include "rendezvous/bootstrap/roster.h"
#include "tryst/types.h"

struct peer;
struct rendezvous;

struct tryst_group {
    tryst_ctx *ctx;
    struct rendezvous *rdv;
    struct roster roster;
    uint8_t cookie[16];
    pthread_mutex_t step_lock; /**< ids are taken and handed in in one order */
    uint64_t steps_end;        /**< 1 + newest id that the user opened; under step_lock */
    struct peer *peers;        /**< by rank; our own is the loopback peer */
};

#endif
