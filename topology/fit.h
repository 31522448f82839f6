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

#include <assert.h>

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

/* ---- what to measure ---- */

struct fit_pair {
    uint32_t from, to;
};

/* Rounds of pairs whose flows run at the same time; what graph_fit wants to see. Pairs of round r are
 * pairs[first[r]] … pairs[first[r + 1] - 1]. */
struct fit_schedule {
    struct fit_pair *pairs;
    uint32_t *first;
    uint32_t rounds_count, pairs_count;
};

/** Each ordered pair once in a round in which no two share a host (`hosts`: a number for each rank; NULL: each
 *  has its own); and, for three ranks or more, once in a round where every rank sends and receives (a shared trunk
 *  shows; from five ranks on there are six more such rounds, mixed), once where its sender sends to all and once where its receiver receives from all (an
 *  interface shows). TRYST_E_NOMEM; TRYST_E_INVALID: ranks, as graph_fit. */
tryst_status fit_schedule_open(uint32_t ranks_count, const uint32_t *hosts,
                               struct err *err, struct fit_schedule *schedule_p);
void fit_schedule_close(struct fit_schedule *schedule);

/* ---- fit_cuts.c ---- */

/* A cut counts as full from here on: TCP leaves some room, and rates of one round differ by as much. */
#define FIT_FULL 0.88

/* A set of ranks by bits; rank 0 is in none of the groups: a cut and its other side are one wire. */
struct fit_cuts {
    uint64_t groups[FIT_RANKS_MAX];
    uint32_t groups_count;
    uint32_t explained;
};

static inline uint64_t fit_all(uint32_t ranks_count)
{
    assert(ranks_count > 0 && ranks_count <= FIT_RANKS_MAX);
    return UINT64_MAX >> (FIT_RANKS_MAX - ranks_count);
}

/* The most that was seen to leave `set`, over all rounds. */
double fit_capacity(const struct fit_samples *samples, uint64_t set);
/* What left it when it was full: the upper quartile over rounds in which it may have been (not all that look
 * full were), since the most is the luckiest round's. TRYST_E_NOMEM. */
tryst_status fit_usual(const struct fit_samples *samples, uint64_t set, double *usual_p);
/* The best rate that was seen from one to the other, and the upper quartile of those that came near it. */
double fit_pair_capacity(const struct fit_samples *samples, uint32_t from, uint32_t to);
double fit_pair_usual(const struct fit_samples *samples, uint32_t from, uint32_t to);

/** The groups that explain the flows best. TRYST_E_NOMEM. */
tryst_status fit_cuts_find(const struct fit_samples *samples, struct fit_cuts *cuts_p);

/** How many flows are explained by each rank's own wire and one for each pair. TRYST_E_NOMEM. */
tryst_status fit_mesh_explains(const struct fit_samples *samples, uint32_t *explained_p);

#endif
