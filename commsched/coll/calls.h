/* SPDX-License-Identifier: Apache-2.0 */
/** @file calls.h
 *  What the public calls share.
 */
#ifndef COMMSCHED_COLL_CALLS_H
#define COMMSCHED_COLL_CALLS_H

#include <stdbool.h>

#include "tryst/coll.h"

/** The dtype and count that a tensor of a start must have. */
struct coll_wanted {
    tryst_dtype dtype;
    uint64_t count;
    bool or_more; /**< the tensor may have more elements */
};

/** Convert and check one tensor of a start. `tensor` NULL: none, of which `*own_p` has no
 *  data. */
tryst_status coll_tensor_take(const char *name, const tryst_tensor *tensor,
                              const struct coll_wanted *wanted, tryst_tensor *own_p);
/** The subgroup that `params` name, or NULL. */
const tryst_subgroup *coll_subgroup_of(const tryst_op_params *params);
/** Start what `what` describes, prepared or kept: a call of the kind's. `step` is not
 *  NULL. */
tryst_status coll_call(tryst_step *step, tryst_coll_params what, const tryst_tensor *in,
                       const tryst_tensor *out, const tryst_op_params *params,
                       tryst_op **op_p);

/** True if two runs of bytes share some. */
static inline bool coll_overlap(const char *a, uint64_t a_bytes, const char *b,
                                uint64_t b_bytes)
{
    uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
    return x < y ? y - x < a_bytes && b_bytes : x - y < b_bytes && a_bytes;
}

#endif
