/* SPDX-License-Identifier: Apache-2.0 */
/** @file roster_machines.h
 *  The machines in a group's roster, for which rank 0 plans where TRYST_TOPOLOGY is
 *  unset.
 *
 *  - The rate of a machine's NIC is the sum over all rails that the machine's ranks
 *    announced.
 *  - A rail of unknown rate counts as the slowest known rail of the group, so no plan
 *    relies on a fast one; if no rate is known, as COMPILED_RATE_ASSUMED.
 *  The graph of such machines is drawn in topology/planner/cluster_graph.h.
 */
#ifndef TRYST_CONTEXT_ROSTER_MACHINES_H
#define TRYST_CONTEXT_ROSTER_MACHINES_H

#include "collectives/plan/planner.h"
#include "core/memory/arrays.h"

/** The most ranks of a group that is planned for its machines. A plan for 1,024 ranks
 *  took 2 s of processor time (128 machines, 2026-11-25), and the cost grows with the
 *  square. */
#define ROSTER_MACHINES_RANKS_MAX 1024

struct roster;

struct roster_machines {
    struct arrays arrays; /**< memory of the arrays of `cluster` */
    struct planner_cluster cluster;
    /** The plan for equal links serves: all ranks are on one machine, or each rank is
     *  alone on its machine and all NICs have one rate, or the group has more than
     *  ROSTER_MACHINES_RANKS_MAX ranks. */
    bool alike;
    bool rates_assumed; /**< the rate of no rail is known */
    bool apart;         /**< each rank is alone on its machine */
};

/** Find the machines; roster_machines_drop frees them. Equal rosters give equal machines.
 *  TRYST_OK; TRYST_E_NOMEM with a text. */
tryst_status roster_machines_find(const struct roster *roster, struct err *err,
                                  struct roster_machines *machines_p);

/** Free the arrays of zeroed or found machines. */
void roster_machines_drop(struct roster_machines *machines);

/** Return the digest of all that a plan depends on. */
uint64_t roster_machines_digest(const struct roster_machines *machines);

#endif
