/* SPDX-License-Identifier: Apache-2.0 */
/** @file coll.h
 *  The engine of collectives of one context, as context/ opens it and rendezvous drives it.
 */
#ifndef COMMSCHED_COLL_COLL_H
#define COMMSCHED_COLL_COLL_H

#include "commsched/coll/tree/plan.h"
#include "core/config/config.h"
#include "rendezvous/op/above.h"
#include "tryst/types.h"

struct colls;

/** Functions of layers that the engine does not include. */
struct coll_host {
    void *owner; /**< the context */
    /** Start the progress thread if there is none; errno is set on failure. Any thread. */
    tryst_status (*start)(void *owner);
};

tryst_status colls_open(const struct coll_host *host, const struct config *config,
                        struct colls **colls_p);
/** No operation is left. NULL is allowed. */
void colls_close(struct colls *colls);
/** The engine's table for rendezvous_params.above. */
struct above colls_above(struct colls *colls);
/** Give the group its plan, which stays the caller's until colls_group_close; before the first collective.
 *  Without one, or with NULL, trees are binary. */
void colls_plan_set(struct colls *colls, const struct coll_plan *plan);
/** The group is closed, and no operation of it is left: forget what was kept for it. */
void colls_group_close(struct colls *colls);

#endif
