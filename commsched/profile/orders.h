/* SPDX-License-Identifier: Apache-2.0 */
/** @file orders.h
 *  A profile under the orders of tryst/profile.h, and with the operations joined that
 *  should be.
 *
 *  One idea: an order is a graph for the oracle and an urgency. `params` of all functions
 *  have no default left.
 */
#ifndef TRYST_COMMSCHED_PROFILE_ORDERS_H
#define TRYST_COMMSCHED_PROFILE_ORDERS_H

#include "profile.h"

/** Replay the profile: fill in profile->spans and profile->pieces. TRYST_E_INVALID: as
 *  tryst_profile_replay; TRYST_E_NOMEM. */
tryst_status orders_replay(struct tryst_profile *profile,
                           const tryst_profile_params *params, struct err *err,
                           double *seconds_p);

/** Choose the operations to join: see tryst_profile_fuse. */
tryst_status orders_fuse(struct tryst_profile *profile,
                         const tryst_profile_params *params, struct err *err,
                         uint32_t *groups, uint32_t *count_p);

#endif
