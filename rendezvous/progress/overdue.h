/* SPDX-License-Identifier: Apache-2.0 */
/** @file overdue.h
 *  Operations that take long: the reason for their wait, deadlines, warnings. All in the
 *  progress domain.
 */
#ifndef TRYST_RENDEZVOUS_PROGRESS_OVERDUE_H
#define TRYST_RENDEZVOUS_PROGRESS_OVERDUE_H

#include <stddef.h>
#include <stdint.h>

#include "tryst/types.h"

struct rendezvous;

/** Bytes of the sentence about an operation: its key, and lost packets. */
enum { OP_TEXT_MAX = 1800 };

/** Write a sentence about the wait of `op` into `text`. */
void op_describe(const tryst_op *op, uint64_t now_ns, char *text, size_t capacity);
/** Fail every operation with a passed deadline. Returns their number. */
int deadlines_run(struct rendezvous *rdv, uint64_t now_ns);
/** Warn about operations that have waited for TRYST_STALL_WARN, once about each: name the
 *  oldest of each step, and count the others. Not about flows, since the warning about
 *  their collective names them. */
void stalls_warn(struct rendezvous *rdv, uint64_t now_ns);

#endif
