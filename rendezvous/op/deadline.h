/* SPDX-License-Identifier: Apache-2.0 */
/** @file deadline.h
 *  Deadlines: a binary heap of operations by deadline_at_ns. All in the progress domain.
 */
#ifndef RENDEZVOUS_OP_DEADLINE_H
#define RENDEZVOUS_OP_DEADLINE_H

#include <stdint.h>

#include "tryst/types.h"

struct rendezvous;

tryst_status deadline_add(struct rendezvous *rdv, tryst_op *op);
/** One that has none is left as it is. */
void deadline_remove(struct rendezvous *rdv, tryst_op *op);
/** Take out one whose time has come, or NULL. */
tryst_op *deadline_take(struct rendezvous *rdv, uint64_t now_ns);
/** When the first one comes, 0: there is none. */
uint64_t deadline_next(const struct rendezvous *rdv);

#endif
