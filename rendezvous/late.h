/* SPDX-License-Identifier: Apache-2.0 */
/** @file late.h
 *  Operations that take long: what they wait for, deadlines that pass, warnings. All in the progress
 *  domain.
 */
#ifndef RENDEZVOUS_LATE_H
#define RENDEZVOUS_LATE_H

#include <stddef.h>
#include <stdint.h>

#include "tryst/types.h"

struct rendezvous;

/** A sentence on what `op` waits for, into `text`. */
void op_describe(const tryst_op *op, uint64_t now_ns, char *text, size_t capacity);
/** Start the cancel of every operation whose time has come; how many. */
int deadlines_run(struct rendezvous *rdv, uint64_t now_ns);
/** Warn once of each operation that has waited for TRYST_STALL_WARN. */
void stalls_warn(struct rendezvous *rdv, uint64_t now_ns);

#endif
