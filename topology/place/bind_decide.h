/* SPDX-License-Identifier: Apache-2.0 */
/* The processors for a progress thread; a pure function of the graph and of the
 * processors that the process may use. */
#ifndef TRYST_TOPOLOGY_PLACE_BIND_DECIDE_H
#define TRYST_TOPOLOGY_PLACE_BIND_DECIDE_H

#include "core/text/index_set.h"
#include "topology/base/graph.h"

struct bind_choice {
    struct index_set cpus; /**< empty: the thread is not moved */
    uint32_t nic;          /**< the NIC's node; GRAPH_NONE: no NIC was found */
    /** Why `cpus` is empty or near the rank instead of the NIC, for the log; NULL: near
     *  the NIC. */
    const char *why;
};

/** Choose processors near the nearest NIC of the rank number `rank`; of several equally
 *  near NICs, number `rank` modulo their count is taken. `given` are the processors that
 *  the process may use. The graph is sealed. Returns TRYST_OK or TRYST_E_NOMEM. */
tryst_status bind_decide(const struct graph *graph, uint32_t rank,
                         const struct index_set *given, struct bind_choice *choice_p);

#endif
