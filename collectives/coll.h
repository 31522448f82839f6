/* SPDX-License-Identifier: Apache-2.0 */
/** @file coll.h
 *  The engine of collectives of one context: context/ opens it, rendezvous drives it.
 */
#ifndef TRYST_COLLECTIVES_COLL_H
#define TRYST_COLLECTIVES_COLL_H

#include "collectives/tree/coll_plan.h"
#include "core/config/config.h"
#include "rendezvous/op/coll_calls.h"
#include "tryst/types.h"

struct colls;
struct priorities;
struct recorder;

/** Functions of layers that the engine does not include. */
struct coll_host {
    void *owner; /**< the context */
    /** Start the progress thread if there is none; errno is set on failure. Any
     *  thread. */
    tryst_status (*start)(void *owner);
    struct recorder *recorder; /**< records the collectives; NULL: none */
    /** Default priorities of the recorded collectives of the whole group; NULL: none, in
     *  subgroups too. */
    struct priorities *priorities;
    /** With `priorities`: get the reason why they are not applied for now. Any thread. */
    void (*unprioritized)(void *owner, const char *why);
};

tryst_status colls_open(const struct coll_host *host, const struct config *config,
                        struct colls **colls_p);
/** Close the engine, which has no operation left. NULL is allowed. */
void colls_close(struct colls *colls);
/** Return the engine's table for rendezvous_params.coll_calls. */
struct coll_calls colls_calls(struct colls *colls);
/** Set the group's plan, before the first collective. The plan is the caller's, and
 *  must stay until colls_group_close. Without a plan, or with NULL, trees are binary. */
void colls_plan_set(struct colls *colls, const struct coll_plan *plan);
/** Stop copying from and to devices: no collective is left. Waits for the thread that
 *  copies, which may wait for the progress lock: the caller must not hold it. */
void colls_copier_close(struct colls *colls);
/** Drop all that is kept for the group, which is closed and has no operation left. */
void colls_group_close(struct colls *colls);

#endif
