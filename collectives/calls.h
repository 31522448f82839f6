/* SPDX-License-Identifier: Apache-2.0 */
/** @file calls.h
 *  Functions that the public calls share.
 */
#ifndef TRYST_COLLECTIVES_CALLS_H
#define TRYST_COLLECTIVES_CALLS_H

#include <stdbool.h>

#include "tryst/coll.h"

/** Names that the program cannot use. */
#define COLL_OWN_NAMES "~tryst/"

/** The dtype and count that a tensor of a start must have. */
struct coll_wanted {
    tryst_dtype dtype;
    uint64_t count;
    bool or_more; /**< the tensor may have more elements */
};

/** Check one tensor of a start and copy it to `*own_p`. `tensor` NULL: none; then
 *  `*own_p` has no data. */
tryst_status coll_tensor_copy(const char *name, const tryst_tensor *tensor,
                              const struct coll_wanted *wanted, tryst_tensor *own_p);
/** Return the subgroup of `params`, or NULL. */
const tryst_subgroup *coll_subgroup_of(const tryst_op_params *params);
/** Find or prepare the collective that `what` describes, and start it: the body of
 *  each one-shot call. `step` is not NULL. */
tryst_status coll_call(tryst_step *step, tryst_coll_params what, const tryst_tensor *in,
                       const tryst_tensor *out, const tryst_op_params *params,
                       tryst_op **op_p);
/** The same for the library's own collectives, in place: `what` has count and dtype, too,
 *  and a name that begins with COLL_OWN_NAMES. The callback of `params` gets the
 *  outcome. */
tryst_status coll_call_own(tryst_step *step, tryst_coll_params what,
                           const tryst_tensor *tensor, const tryst_op_params *params);

/** True if two ranges of memory share a byte. */
static inline bool coll_overlap(const char *a, uint64_t a_bytes, const char *b,
                                uint64_t b_bytes)
{
    uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
    return x < y ? y - x < a_bytes && b_bytes : x - y < b_bytes && a_bytes;
}

#endif
