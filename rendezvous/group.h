/* SPDX-License-Identifier: Apache-2.0 */
/** @file group.h
 *  The group of all ranks of a job: its roster and one peer per rank.
 */
#ifndef RENDEZVOUS_GROUP_H
#define RENDEZVOUS_GROUP_H

#include <stdatomic.h>
#include <stdint.h>

#include "rendezvous/roster.h"
#include "tryst/types.h"

struct peer;
struct rendezvous;

struct tryst_group {
    tryst_ctx *ctx;
    struct rendezvous *rdv;
    struct roster roster;
    uint8_t cookie[16];
    _Atomic(uint64_t) step_newest; /**< 1 + newest id opened by the user; 0: none yet */
    struct peer *peers;            /**< by rank; our own is the loopback peer */
};

#endif
