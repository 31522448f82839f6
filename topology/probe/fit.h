/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A graph from a probe's samples.
 *
 * One idea: a flow's rate is its part of its narrowest shared wire, so *every* flow of
 * every round crosses a cut that was full in that round. A cut is a set of ranks and the
 * flows that leave it; its capacity is the highest sum of rates that left it in any
 * round. graph_fit searches the fewest nested sets (a rank and its interface, the ranks
 * of a machine, of a rack) with cuts that explain all flows. The sets become the
 * switches; a link's rate is the usual sum over its cut in the rounds that filled it
 * (fit_usual). Where no sets explain the flows and a wire for each pair does, the network
 * has no switch.
 * Invariants: a capacity is a measured sum, never an inference; for a wire that was never
 * full it is a lower bound. No clock of one rank is compared with another's: rates are
 * the receiver's, latencies half of round trips. Equal samples give equal graphs.
 */
#ifndef TRYST_TOPOLOGY_PROBE_FIT_H
#define TRYST_TOPOLOGY_PROBE_FIT_H

#include "topology/base/graph.h"

enum { FIT_RANKS_MAX = 64 };

/** A flow of a round. */
struct fit_flow {
    uint32_t from, to;
    double bytes_per_s; /**< rate at the receiver while all flows of the round ran */
};

struct fit_round {
    const struct fit_flow *flows;
    uint32_t count;
};

struct fit_samples {
    uint32_t ranks_count;
    const char *const *names; /**< the ranks' names, unique */
    const struct fit_round *rounds;
    uint32_t rounds_count;
    /** [from × ranks + to]; GRAPH_UNKNOWN: not measured. NULL: no latency was
     *  measured. */
    const double *latency_ns;
};

struct fit_report {
    uint32_t groups;           /**< number of sets of ranks that share a wire */
    bool mesh;                 /**< the graph has a wire for each pair */
    uint32_t flows, explained; /**< flows of all rounds; flows that cross a full cut */
};

/** Fit a graph to the samples. Ranks become nodes in their order, switches are named
 *  net0, net1, …; the graph is sealed.
 *  Returns: TRYST_E_INVALID  fewer than 2 ranks or more than FIT_RANKS_MAX, a rate that
 *                            is not positive and finite, a flow between ranks that do
 *                            not exist, a pair without a flow, or a name used twice
 *           TRYST_E_NOMEM */
tryst_status graph_fit(const struct fit_samples *samples, struct err *err,
                       struct fit_report *report_p, struct graph **graph_p);

#endif
