/* SPDX-License-Identifier: Apache-2.0 */
/** @file planner.h
 *  The planner, as a table of functions.
 *
 *  Idea: only rank 0 of a group plans, and only where links do not count as equal. So the
 *  planner is a module (transports/module.h), built from libtryst_topology's objects, and
 *  this table is all that libtryst has of it. A plan comes back as bytes
 *  (compiled_wire.h).
 *  Invariants: no function keeps a pointer that it was given, or starts a thread. Memory
 *  of the planner is freed by the planner, except a plan's bytes, which the caller's
 *  `alloc` made.
 *  Threads: any; a graph belongs to one thread at a time.
 */
#ifndef TRYST_COLLECTIVES_PLAN_PLANNER_H
#define TRYST_COLLECTIVES_PLAN_PLANNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/text/err.h"

/** The name of the module. */
#define PLANNER_MODULE "topology"

struct graph;

/** A machine with one NIC: the rate of all rails of the machine together. There is no
 *  padding, since ranks compare a digest. */
struct planner_machine {
    uint64_t bytes_per_s;
    uint32_t ranks;
    uint32_t rate_known; /**< 0: the rate of a rail is assumed */
};
_Static_assert(sizeof(struct planner_machine) == 16, "no padding");

/** Machines at one switch, which has no limit, and the ranks on them. */
struct planner_cluster {
    const struct planner_machine *machines;
    const uint32_t *machine_of; /**< by rank: index in `machines` */
    uint32_t machines_count, ranks_count;
};

struct planner_request {
    const struct graph *graph;
    /** Time after which the solver stops with the plan that it has. */
    uint64_t budget_ns;
    /** No size takes longer, by prediction, than with the plan for equal links. */
    bool within_equal;
    bool rates_assumed; /**< no rate of the graph is known: COMPILED_RATES_ASSUMED */
    void *(*alloc)(size_t bytes); /**< allocates the result */
};

struct planner_ops {
    /** Read a network in any format of topology/formats; messages begin with `name`.
     *  TRYST_E_INVALID, TRYST_E_UNSUPPORTED, TRYST_E_NOMEM, each with a text. */
    tryst_status (*graph_parse)(const char *text, size_t bytes, const char *name,
                                struct err *err, struct graph **graph_p,
                                uint32_t *ranks_count_p);
    /** Build the network of a cluster. TRYST_E_NOMEM with a text. */
    tryst_status (*graph_build)(const struct planner_cluster *cluster, struct err *err,
                                struct graph **graph_p);
    /** Free a graph; NULL is allowed. */
    void (*graph_close)(struct graph *graph);
    /** Check that each two ranks have a route. TRYST_E_INVALID with a text that names two
     *  ranks; TRYST_E_NOMEM. */
    tryst_status (*routes_check)(const struct graph *graph, struct err *err);
    /** Plan all-reduces of all ranks of a graph. The statuses of routes_check. */
    tryst_status (*plan)(const struct planner_request *request, struct err *err,
                         uint8_t **bytes_p, size_t *count_p);
};

#endif
