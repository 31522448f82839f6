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

/** Return the subgroup of `params`, or NULL. */
const tryst_subgroup *coll_subgroup_of(const tryst_op_params *params);
/** Take the dtype of `tensor`, and its count divided by `blocks`. A tensor that does not
 *  divide is refused later, by its count. */
tryst_status coll_params_fill(tryst_coll_params *what, const tryst_tensor *tensor,
                              int blocks);
/** Find or prepare the collective that `what` describes, and start it: the body of
 *  each one-shot call. `step` is not NULL. Fills in the rest of `what`. */
tryst_status coll_call(tryst_step *step, tryst_coll_params *what, const tryst_tensor *in,
                       const tryst_tensor *out, const tryst_op_params *params,
                       tryst_op **op_p);
/** The same for the library's own collectives, in place: `what` has a name that begins
 *  with COLL_OWN_NAMES. The callback of `params` gets the outcome. */
tryst_status coll_call_own(tryst_step *step, tryst_coll_params *what,
                           const tryst_tensor *tensor, const tryst_op_params *params);

#endif
