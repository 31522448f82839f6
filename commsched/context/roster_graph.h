/* SPDX-License-Identifier: Apache-2.0 */
/** @file roster_graph.h
 *  The machines in a group's roster as a graph. Rank 0 plans for it where TRYST_TOPOLOGY is unset.
 *
 *      rank0 ─┐
 *      rank1 ─┴─ machine ─── NIC ─── switch ─── NIC ─── machine ─── rank2
 *           memory     no limit    rate    rate    no limit    no limit: alone on its machine
 *
 *  - A machine's NIC has the rates of all rails together that its ranks announced. The switch never limits.
 *  - A rail of unknown rate counts as the slowest that is known anywhere, so no plan relies on it; where none is known,
 *    as COMPILED_RATE_ASSUMED. The link of such a NIC has ORIGIN_NONE.
 *  - Ranks of one machine reach each other over memory, at the rate of one core (SUM_CORE_BYTES_PER_S, measured). A
 *    rank alone on its machine has no such link, so that it does not hide the rate of a fast NIC.
 *  - Latencies are unknown, as those of machines read from hwloc are.
 */
#ifndef COMMSCHED_CONTEXT_ROSTER_GRAPH_H
#define COMMSCHED_CONTEXT_ROSTER_GRAPH_H

#include <stdbool.h>

#include "core/err.h"

/** Groups of more ranks have no graph. A plan for 1,024 took 2 s of processor (128 machines, 2026-11-25), and its cost grows
 *  with the square. */
#define ROSTER_GRAPH_RANKS_MAX 1024

struct graph;
struct roster;

struct roster_graph {
    struct graph *graph; /**< sealed; NULL: all links count as equal */
    bool rates_assumed;  /**< no rail's rate is known */
};

/** Make the graph, unless the plan for equal links serves: `graph` is NULL where all ranks are on one machine, where each is
 *  alone on its machine and all NICs have one rate, and for groups that are too large. Equal rosters give equal graphs.
 *  TRYST_OK; TRYST_E_NOMEM with a sentence. */
tryst_status roster_graph_open(const struct roster *roster, struct err *err,
                               struct roster_graph *graph_p);

#endif
