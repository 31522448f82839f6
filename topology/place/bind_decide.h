/* SPDX-License-Identifier: Apache-2.0 */
/* Which processors a progress thread is given; a pure function of the graph and of what the process may use.
 * Callers: bind.c. */
#ifndef TRYST_TOPOLOGY_BIND_DECIDE_H
#define TRYST_TOPOLOGY_BIND_DECIDE_H

#include "topology/base/graph.h"
#include "topology/base/index_set.h"

struct bind_choice {
    struct index_set cpus; /* empty: leave it as it is */
    uint32_t nic;          /* the node whose NIC is meant; GRAPH_NONE */
    const char *why; /* of an empty or second choice, for the log; NULL: all as wanted */
};

/** `rank` is a rank's number; its NIC is the nearest one (of several the (rank mod count)th). `given` are the
 *  processors that the process may use. The graph is sealed. TRYST_E_NOMEM. */
tryst_status bind_decide(const struct graph *graph, uint32_t rank,
                         const struct index_set *given, struct bind_choice *choice_p);

#endif
