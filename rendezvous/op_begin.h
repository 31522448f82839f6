/* SPDX-License-Identifier: Apache-2.0 */
/** @file op_begin.h
 *  The start of an operation in the progress domain (op_begin.c).
 */
#ifndef TRYST_RENDEZVOUS_OP_BEGIN_H
#define TRYST_RENDEZVOUS_OP_BEGIN_H

#include "rendezvous/op/engine.h"

/** Start a submitted operation: put it into its step, set its time, its deadline and its
 *  urgency, and give a send or a receive its peer and the entry of its key. Of equally
 *  urgent operations of a step the one with the lower `tie` goes first (0: in the order
 *  of submission). False: it has ended instead (op_refusal). Also where there was no
 *  memory; such an operation takes no number, and all later ones of its key would meet
 *  wrong ones, so the step is aborted on all ranks. */
bool op_begin(tryst_op *op, struct scope *scope, uint64_t tie);

#endif
