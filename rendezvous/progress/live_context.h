/* SPDX-License-Identifier: Apache-2.0 */
/** @file live_context.h
 *  The live page (tryst/live.h) as the context opens, updates and closes it; written by
 *  live_gather.c.
 */
#ifndef TRYST_RENDEZVOUS_PROGRESS_LIVE_CONTEXT_H
#define TRYST_RENDEZVOUS_PROGRESS_LIVE_CONTEXT_H

#include <stdint.h>

#include "tryst/live.h"
#include "tryst/types.h"

struct rendezvous;

/** Create the page that tryst-info --live reads, before the bootstrap. Without memory or
 *  descriptors no page is made. */
void rendezvous_live_open(struct rendezvous *rdv, int rank, int size);
void rendezvous_live_closing(struct rendezvous *rdv);
void rendezvous_live_close(struct rendezvous *rdv);
/** Show that the thread has polled without an event and is to sleep for `op` (NULL: for
 *  any event), where the transports allow that. May be repeated at any time. */
void rendezvous_live_wait(struct rendezvous *rdv, tryst_op *op, enum tryst_live_wait how,
                          uint64_t now_ns);
/** Show that the thread leaves the engine. */
void rendezvous_live_leave(struct rendezvous *rdv);

#endif
