/* SPDX-License-Identifier: Apache-2.0 */
/** @file start.h
 *  One start of a prepared collective: its tensors, the memory of its parts, its
 *  submission.
 */
#ifndef TRYST_COLLECTIVES_START_H
#define TRYST_COLLECTIVES_START_H

#include "run.h"

/** Start `coll`: check the tensors and submit an operation to `step`, which is of the
 *  collective's group. `params` (this version's, or NULL) were checked. `op_p` NULL: the
 *  caller keeps no handle. Writes a text for tryst_last_error. Any thread. */
tryst_status coll_start(tryst_step *step, tryst_coll *coll, const tryst_tensor *in,
                        const tryst_tensor *out, const tryst_op_params *params,
                        tryst_op **op_p);
/** Return the registered region that holds `data`, which is in a tensor of the run; NULL:
 *  none does, as for private memory. */
struct tryst_mem *coll_region_of(const struct coll_run *run, const char *data);
/** Note that all terms of this rank are in host memory: pack the blocks of a packed
 *  collective, and copy the term of an exchange out of the way of the sums. */
void coll_terms_take(struct coll_run *run);
/** Copy the result of a packed collective to `out`. */
void coll_unpack(struct coll_run *run);

#endif
