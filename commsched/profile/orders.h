/* SPDX-License-Identifier: Apache-2.0 */
/** @file orders.h
 *  A profile under the orders of tryst/profile.h.
 *
 *  One idea: an order is a graph for the oracle and an urgency. Buckets are a graph in
 *  which operations are joined.
 */
#ifndef TRYST_COMMSCHED_PROFILE_ORDERS_H
#define TRYST_COMMSCHED_PROFILE_ORDERS_H

#include "profile.h"

/** Set `*index_p` to a node of a cycle, or to one behind a cycle. Returns TRYST_OK: there
 *  is no cycle; TRYST_E_INVALID: there is one; TRYST_E_NOMEM. */
tryst_status orders_cycle_find(struct tryst_profile *profile, struct err *err,
                               uint32_t *index_p);

/** Make profile->oracle that of the profile, a node for each. `params` has no default
 *  left. Statuses as oracle_open. */
tryst_status orders_oracle_open(struct tryst_profile *profile,
                                const tryst_profile_params *params, struct err *err);

/** Replay the profile: fill in profile->spans and profile->pieces. `params` has no
 *  default left. Statuses as oracle_open. */
tryst_status orders_replay(struct tryst_profile *profile,
                           const tryst_profile_params *params, struct err *err,
                           double *seconds_p);

#endif
