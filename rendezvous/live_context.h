/* SPDX-License-Identifier: Apache-2.0 */
/** @file live_context.h
 *  What the context tells its live page (tryst/live.h): written by live_gather.c.
 */
#ifndef RENDEZVOUS_LIVE_CONTEXT_H
#define RENDEZVOUS_LIVE_CONTEXT_H

#include <stdint.h>

#include "tryst/live.h"
#include "tryst/types.h"

struct rendezvous;

/** Make the page that tryst-info --live reads, before the ranks come together. `held` is the byte
 *  that says whether a thread is inside the engine. Without memory or descriptors there is none. */
void rendezvous_live_open(struct rendezvous *rdv, int rank, int size, const void *held);
void rendezvous_live_closing(struct rendezvous *rdv);
void rendezvous_live_close(struct rendezvous *rdv);
/** The thread has spun in vain, and will sleep for `op` (NULL: for whatever comes) where the transports
 *  allow it. Said again as often as one likes. */
void rendezvous_live_wait(struct rendezvous *rdv, tryst_op *op, enum tryst_live_wait how,
                          uint64_t now_ns);
/** It leaves the engine. */
void rendezvous_live_leave(struct rendezvous *rdv);

#endif
