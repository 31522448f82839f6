/* SPDX-License-Identifier: Apache-2.0 */
/** @file live_gather.h
 *  Values of operations and peers for the live page (live/page.h).
 *
 *  Idea: an operation has a place on the page from its submission to its completion. If
 *  all places are taken, a tick gives it one that has become free.
 */
#ifndef TRYST_RENDEZVOUS_PROGRESS_LIVE_GATHER_H
#define TRYST_RENDEZVOUS_PROGRESS_LIVE_GATHER_H

#include <string.h>

#include "rendezvous/op/engine.h"

static inline uint16_t live_kind_state(const tryst_op *op)
{
    uint16_t kind_state; /* neighbours in tryst_op: one load */
    memcpy(&kind_state, &op->kind, sizeof kind_state);
    return kind_state;
}

/** Give a place to an operation that was submitted and has not completed. */
__attribute__((always_inline)) static inline void live_op_begin(struct live *live,
                                                                tryst_op *op,
                                                                const tryst_key *key,
                                                                int32_t rank)
{
    op->live = live_op_add(live, &(struct live_op){.kind_state = live_kind_state(op),
                                                   .rank = rank,
                                                   .step = op->step_id,
                                                   .number = op->queued.seq,
                                                   .bytes = op->bytes,
                                                   .since_ns = op->submitted_ns,
                                                   .key = key});
}

/** Refresh all records, at a tick. */
void live_tick(struct live *live, struct rendezvous *rdv, uint64_t now_ns);

#endif
