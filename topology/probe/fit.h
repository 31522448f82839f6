/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A graph from a probe's samples.
 *
 * One idea: a flow has the rate that its narrowest shared wire leaves it, so *every* flow of every round
 * must cross some cut that was full in that round. A cut is a set of ranks and what leaves it; its
 * capacity is the most that was ever seen to leave it. We look for the fewest nested sets (a rank and its
 * interface, the ranks of a machine, of a rack) whose cuts explain all flows: those sets are the
 * switches, their capacities the links. Where sets cannot explain them and a wire for each pair can, the
 * network has no switch.
 * Invariants: a capacity is a measured sum, never an inference; one that was never full is a lower bound. No
 * clock of one rank is compared with another's: rates are the receiver's, latencies half of round trips.
 * Equal samples give equal graphs.
 * Callers: tryst/topo.h's implementation (who gathers samples sits above), tests.
 */
#ifndef TRYST_TOPOLOGY_FIT_H
#define TRYST_TOPOLOGY_FIT_H

#include "topology/base/graph.h"

enum { FIT_RANKS_MAX = 64 };

/* What was received from `from` at `to` while all flows of its round ran. */
struct fit_flow {
    uint32_t from, to;
    double bytes_per_s;
};

struct fit_round {
    const struct fit_flow *flows;
    uint32_t count;
};

struct fit_samples {
    uint32_t ranks_count;
    const char *const *names; /* of the ranks, unique */
    const struct fit_round *rounds;
    uint32_t rounds_count;
    const double
        *latency_ns; /* [from × ranks + to], GRAPH_UNKNOWN where there is none; NULL */
};

struct fit_report {
    uint32_t groups;           /* sets of ranks behind a wire that they share */
    bool mesh;                 /* a wire for each pair */
    uint32_t flows, explained; /* of all rounds; how many cross a full cut of the graph */
};

/** Ranks become nodes in their order, switches are named net0, net1, …; the graph is sealed.
 *  TRYST_E_NOMEM; TRYST_E_INVALID: fewer than 2 ranks or more than FIT_RANKS_MAX, a rate that is no positive number,
 *  a pair that no round measured in either way (the sentence names it). */
tryst_status graph_fit(const struct fit_samples *samples, struct err *err,
                       struct fit_report *report_p, struct graph **graph_p);

#endif
