/* SPDX-License-Identifier: Apache-2.0 */
/** @file coll_calls.h
 *  The calls to the engine of collectives, which is above rendezvous: in each pass, and
 *  for its operations (OP_COLL).
 */
#ifndef TRYST_RENDEZVOUS_OP_COLL_CALLS_H
#define TRYST_RENDEZVOUS_OP_COLL_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "op.h"

struct flow_shape;
struct memory_ops;

/** Installed into rendezvous_params; all zero: no engine. All calls but `submitted` and
 *  `used` are in the progress domain. */
struct coll_calls {
    void *arg;
    /** Record that `op` is submitted next; may set its priority. Any thread. NULL:
     *  nothing is recorded. */
    void (*submitted)(void *arg, tryst_op *op);
    /** Begin the collective `coll` of coll_op_submit, in a submission. `op` NULL: its
     *  operation could not begin (op_begin.h) and has ended. */
    void (*begin)(void *arg, void *coll, tryst_op *op);
    /** Do a bounded part of the work that hooks and submissions have marked. Each pass
     *  calls it between the rails and the scheduler. Work that a submission marks outside
     *  of a pass waits for the next pass, which rdv->ran_inline requests. `copied_bytes`
     *  is what the rails have copied in the pass, and counts against the part. Returns
     *  the number of runs that advanced; above zero while work is left. */
    int (*run)(void *arg, uint64_t copied_bytes);
    /** The urgency of the work that the last `run` has left, for which its part was too
     *  small; *left NULL: none. NULL: never any. */
    const struct urgency *const *left;
    /** False while `run` has no work, so that passes skip the call. NULL: each pass calls
     *  `run`. */
    const bool *is_due;
    /** True if work is left: the thread must not sleep. */
    bool (*busy)(void *arg);
    /** Fail an operation of kind OP_COLL, for a deadline, an abort, a close or the user.
     *  Called inside walks of the step's operations, so the hook only marks; the
     *  operation ends in `run`. */
    void (*fail)(void *arg, tryst_op *op, struct cause cause, const char *text);
    /** Fail the operation whose flow has taken the DATA of number `number` of `key` in
     *  `step`: the operation at the sending end failed later. Marks, as `fail` does.
     *  `text` may be NULL. NULL: such failures are dropped. */
    void (*late_failure)(void *arg, const tryst_key *key, uint64_t step, uint64_t number,
                         struct cause cause, const char *text);
    /** Raise an operation of kind OP_COLL in all queues to `sort_key`
     *  (core/memory/urgency.h). */
    void (*raise)(void *arg, tryst_op *op, uint64_t sort_key);
    /** Describe a collective for the text of a mismatch. A shape from a peer may hold any
     *  values. */
    void (*shape_text)(const struct flow_shape *shape, char *text, size_t capacity);
    /** Return the rank that an operation of kind OP_COLL waits for: a neighbour that has
     *  not joined, else a joined one that waits itself; -1: unknown. For the live page
     *  and for texts. */
    int32_t (*waits_for)(void *arg, const tryst_op *op);
    /** A start of a driver has ended: TRYST_OK, or the reason why it cannot be used.
     *  NULL: none. */
    void (*device_started)(void *arg, tryst_status status);
    /** Let `stream` of `device` wait for the copies of `op`, an OP_COLL on device memory.
     *  The caller has made op->streams BUSY; `follows`: they were TAKEN. TRYST_OK: it
     *  waits.
     *  TRYST_AGAIN: not now; TRYST_E_UNSUPPORTED: in no way but a gate; in both cases
     *  nothing happened. Another status: taken over, and the operation fails with this
     *  status. Any thread but one that holds the progress lock, unless `follows`. NULL:
     *  no operation is ever in a state other than GATE. */
    tryst_status (*stream_wait)(void *arg, tryst_op *op, bool follows,
                                const struct memory_ops *memory, int32_t device,
                                void *stream);
    /** Time between two polls of the words that devices write; *nap_ns 0: none is
     *  polled. NULL: never any. */
    const uint64_t *nap_ns;
    /** Note a use of a recorded operation (op.h): its callback, or a test, a wait or a
     *  stream's wait that met its end. OP_COLL, OP_STEP_CLOSE. `by_callback`: in a
     *  callback, also of another operation. Any thread, until the context closes. NULL:
     *  nothing is recorded. */
    void (*used)(void *arg, const tryst_op *op, bool by_callback);
};

#endif
