/* SPDX-License-Identifier: Apache-2.0 */
/** @file copies.h
 *  The copies of a collective between device memory and host memory.
 *
 *  Idea: flows and sums stay in host memory. A tensor in device memory gets a *shadow*,
 *  host memory of its size, which replaces it in the run from the submission on. A
 *  part's own term is *fetched* to the shadow, and its result is *brought* to the
 *  device, each slice as soon as it can be. So trees, keys and failures are those of host
 *  tensors, and the ranks of a collective may differ in the kind of their memory. The
 *  copier (rendezvous/copier/copier.h) makes all calls of the driver in its own thread.
 *
 *      device ──fetch──▶ shadow ──flows, sums──▶ shadow ──bring──▶ device
 *
 *  A host tensor with a ready event has a shadow as well: fetch and bring wait for the
 *  event.
 *
 *  A stream may wait for the collective: the thread of that wait takes the rest of the
 *  copies over (rendezvous/copier/takeover.h), and the progress thread polls words of the
 *  device in place of the copier's reports.
 *
 *  Invariants: a slice of the own term is added or sent only once it is fetched
 *  (coll_tree_fetched), and a slice of the result brought only once it is complete. An
 *  operation is reported when no copy is in flight. A shadow goes back when the flows and
 *  copies of its run have ended.
 */
#ifndef TRYST_COLLECTIVES_COPIES_H
#define TRYST_COLLECTIVES_COPIES_H

#include "run.h"

/** Replace the run's tensors in device memory by shadows; without such tensors, do
 *  nothing. `unchecked`: the driver of one of them starts, and the tensors are to be
 *  checked again. Writes a text for tryst_last_error. Any thread. */
tryst_status coll_copies_open(struct coll_run *run, bool unchecked);
/** True if the own term of the part is fetched. */
bool coll_copies_fetch(const struct coll_tree_run *at);
/** Prepare the copies of all parts; their memory is set. */
void coll_copies_lay(struct coll_run *run);
/** Return the caller's `out`. */
const tryst_tensor *coll_copies_out(const struct coll_run *run);
/** Give the shadows back: flows and copies have ended, or none began. Any thread. */
void coll_copies_close(struct coll_run *run);

/** The functions below are called in the progress domain. */

/** Begin the copies, once the driver has started. */
void coll_copies_begin(struct coll_run *run);
/** A start of a driver has ended with `status`: begin the copies of the runs that wait
 *  for it, or fail these. */
void coll_copies_go_on(struct colls *colls, tryst_status status);
/** Let the copier bring the complete slices of a part's result. */
void coll_copies_bring(struct coll_tree_run *at);
/** Let the copier bring all that is left: the result is complete. */
void coll_copies_bring_all(struct coll_run *run);
/** Begin no further copy. */
void coll_copies_cancel(struct coll_run *run);
/** Follow the raised urgency of the run. */
void coll_copies_raise(struct coll_run *run);
/** End the copies: the result is complete, or the run has failed without live flows. True
 *  if no copy is in flight, none will begin, and no other thread uses the run. */
bool coll_copies_end(struct coll_run *run);
/** Poll the copies that are taken over, and the runs that another thread uses. */
void coll_copies_poll(struct colls *colls);

/** As coll_calls.stream_wait. Any thread. */
tryst_status coll_copies_stream_wait(struct coll_run *run, bool follows,
                                     const struct memory_ops *memory, int32_t device,
                                     void *stream);

/** Stop the copier and free the shadows: no collective is left. */
void coll_copies_close_all(struct colls *colls);

#endif
