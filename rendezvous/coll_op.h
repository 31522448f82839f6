/* SPDX-License-Identifier: Apache-2.0 */
/** @file coll_op.h
 *  The interface of steps, groups and operations for the engine of collectives. That
 *  engine includes little else of rendezvous: flows (protocol/flow.h), op/ (op.h,
 *  coll_calls.h, dtype.h) and rendezvous.h.
 */
#ifndef TRYST_RENDEZVOUS_COLL_OP_H
#define TRYST_RENDEZVOUS_COLL_OP_H

#include <stdbool.h>
#include <stdint.h>

#include "rendezvous/op/op.h"

struct copier;
struct memory_ops;
struct shadows;

/** Return the group of a step. Any thread. */
tryst_group *step_group(const tryst_step *step);
/** Return the engine of collectives of the group's context; NULL: none is installed. Any
 *  thread. */
void *group_colls(const tryst_group *group);
/** True if the group's ranks are on more than one host. Any thread. */
bool group_is_spread(const tryst_group *group);
/** Refuse a call in a forked child and in a context that closes, with the text "cannot
 *  <call>: ..." for tryst_last_error. Any thread. */
tryst_status group_check(const tryst_group *group, const char *call);
/** Check the memory of a tensor of `bytes` bytes, which may be host memory with a ready
 *  event of a device. Set tensor->mem, if it is NULL and the tensor is large enough for
 *  bulk, to a registered region that covers the tensor, if there is one. Returns what
 *  op_memory_check does. Any thread. */
tryst_status group_memory_check(const tryst_group *group, tryst_tensor *tensor,
                                uint64_t bytes);
/** Return the functions of the driver that copies the tensor and polls its ready event;
 *  NULL: the driver has not started. Any thread. */
const struct memory_ops *coll_tensor_ops(const tryst_tensor *tensor);
/** Open a copier (copier.h), and a pool that pins at most `pinned_max` bytes for it
 *  (shadows.h), for the group's context. TRYST_OK, TRYST_E_NOMEM. Any thread. */
tryst_status group_copier_open(tryst_group *group, uint64_t pinned_max,
                               struct copier **copier_p, struct shadows **shadows_p);
/** Prepare the key of `edge`, a reserved name, from `src` to `dst`. TRYST_OK,
 *  TRYST_E_INVALID (too long), TRYST_E_NOMEM, with a text for tryst_last_error. Any
 *  thread. */
tryst_status group_key(const tryst_group *group, int src, int dst, const char *edge,
                       tryst_key **key_p);
/** Prepare a key that no transfer has: the name of an operation, for errors and logs.
 *  NULL: no memory. */
tryst_key *name_key(const char *name);

/** Submit an operation of kind OP_COLL to `step`, as `params` (this version's, or NULL)
 *  require. `copies`: it is on device memory (OP_STREAMS_UNBEGUN). `label` is its key,
 *  of which a reference is taken. coll_calls.begin gets
 *  `coll` under the progress lock, perhaps before this returns. `op_p` NULL: the caller
 *  keeps no handle. TRYST_OK; TRYST_E_ABORTED, TRYST_E_NOMEM, with a text for
 *  tryst_last_error: nothing happened. Any thread. */
tryst_status coll_op_submit(tryst_step *step, tryst_key *label,
                            const tryst_op_params *params, void *coll, bool copies,
                            tryst_op **op_p);
/** Abort the step on all ranks. This rank's part of the collective could not start, so
 *  later collectives of the same name would meet the wrong ones. */
void coll_op_abort(tryst_op *op, tryst_status status, const char *text);
/** Record the operation in the trace, as one span from its submission until now. `kind`
 *  outlives the trace. */
void coll_op_trace(const tryst_op *op, const char *kind, uint32_t trees);
/** Write the sentence about packets between this rank and `rank` that are lost, after
 *  `before` (peer/loss.h). False: there are none. */
bool coll_op_loss_text(const tryst_op *op, int32_t rank, const char *before, char *text,
                       size_t capacity);
/** True if this rank has a connection to `rank` that lives: what others report of a death
 *  is then not true here, or not yet. In a pass. */
bool coll_op_is_connected(const tryst_op *op, int32_t rank);
/** Run a submission in a pass of the operation's context. Any thread. */
void coll_op_queue(const tryst_op *op, struct submission *submission);
/** Return this rank. Any thread. */
int32_t coll_op_rank(const tryst_op *op);

#endif
