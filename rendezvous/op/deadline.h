/* SPDX-License-Identifier: Apache-2.0 */
/** @file deadline.h
 *  Deadlines: a binary heap of operations by deadline_at_ns. All in the progress domain.
 */
#ifndef TRYST_RENDEZVOUS_OP_DEADLINE_H
#define TRYST_RENDEZVOUS_OP_DEADLINE_H

#include <stdint.h>

#include "tryst/types.h"

struct rendezvous;

/** Add `op` to the heap. Returns TRYST_OK or TRYST_E_NOMEM. */
tryst_status deadline_add(struct rendezvous *rdv, tryst_op *op);
/** Remove the operation from the heap, if it is there. */
void deadline_remove(struct rendezvous *rdv, tryst_op *op);
/** Remove and return the operation with the earliest deadline; NULL: no deadline has
 *  passed. */
tryst_op *deadline_pop(struct rendezvous *rdv, uint64_t now_ns);
/** Return the earliest deadline; 0: none. */
uint64_t deadline_next(const struct rendezvous *rdv);

#endif
