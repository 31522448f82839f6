/* SPDX-License-Identifier: Apache-2.0 */
/** @file roster_graph.h
 *  The machines in a group's roster as a graph, for which rank 0 plans where
 *  TRYST_TOPOLOGY is unset.
 *
 *      rank0 ─┐
 *      rank1 ─┴─ machine ─── NIC ─── switch ─── NIC ─── machine ─── rank2
 *           memory     no limit    rate    rate    no limit    no limit: one rank
 *
 *  - The rate of a machine's NIC is the sum over all rails that the machine's ranks
 *    announced. The switch has no limit.
 *  - A rail of unknown rate counts as the slowest known rail of the group, so no plan
 *    relies on a fast one; if no rate is known, as COMPILED_RATE_ASSUMED. The link of
 *    such a NIC has ORIGIN_NONE.
 *  - Ranks of one machine share memory links at the rate of one core
 *    (SUM_CORE_BYTES_PER_S, measured). A rank alone on its machine has no limit there,
 *    since a memory link would hide the rate of a fast NIC.
 *  - Latencies are unknown, as for machines read from hwloc.
 */
#ifndef TRYST_CONTEXT_ROSTER_GRAPH_H
#define TRYST_CONTEXT_ROSTER_GRAPH_H

#include <stdbool.h>

#include "core/text/err.h"

/** The most ranks of a group with a graph. A plan for 1,024 ranks took 2 s of
 *  processor time (128 machines, 2026-11-25), and the cost grows with the square. */
#define ROSTER_GRAPH_RANKS_MAX 1024

struct graph;
struct roster;

struct roster_graph {
    struct graph *graph; /**< sealed; NULL: all links count as equal */
    bool rates_assumed;  /**< the rate of no rail is known */
    bool apart;          /**< each rank is alone on its machine */
};

/** Build the graph, unless the plan for equal links serves: `graph` is NULL where all
 *  ranks are on one machine, where each rank is alone on its machine and all NICs have
 *  one rate, and for groups of more than ROSTER_GRAPH_RANKS_MAX. Equal rosters give
 *  equal graphs. TRYST_OK; TRYST_E_NOMEM with a text. */
tryst_status roster_graph_open(const struct roster *roster, struct err *err,
                               struct roster_graph *graph_p);

#endif
