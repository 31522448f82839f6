/* SPDX-License-Identifier: Apache-2.0 */
/* Search for the sets of ranks that share a wire; private to fit.c. */
#ifndef TRYST_TOPOLOGY_PROBE_FIT_CUTS_H
#define TRYST_TOPOLOGY_PROBE_FIT_CUTS_H

#include <assert.h>

#include "fit.h"

/** A cut counts as full from this part of its capacity on: TCP does not fill a wire, and
 *  the rates of one round vary by as much. */
#define FIT_FULL 0.88

/** Groups are sets of ranks, with a bit for each rank. Rank 0 is in no group, since a set
 *  and its complement share one wire. */
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

/** Return the highest sum of rates that left `set` in any round. */
double fit_capacity(const struct fit_samples *samples, uint64_t set);
/** Compute the usual sum of rates that left `set` when its cut was full: the upper
 *  quartile over the rounds with at least FIT_FULL of the capacity (the maximum is an
 *  outlier, and some of these rounds were not full). Returns TRYST_OK or
 *  TRYST_E_NOMEM. */
tryst_status fit_usual(const struct fit_samples *samples, uint64_t set, double *usual_p);
/** Return the highest rate of a flow from `from` to `to`. */
double fit_pair_capacity(const struct fit_samples *samples, uint32_t from, uint32_t to);
/** Return the upper quartile of the rates from `from` to `to` that are at least FIT_FULL
 *  of the highest. */
double fit_pair_usual(const struct fit_samples *samples, uint32_t from, uint32_t to);

/** Find groups that explain many flows, greedily. Returns TRYST_OK or TRYST_E_NOMEM. */
tryst_status fit_cuts_find(const struct fit_samples *samples, struct fit_cuts *cuts_p);

/** Count the flows that are explained by each rank's own wire and a wire for each pair.
 *  Returns TRYST_OK or TRYST_E_NOMEM. */
tryst_status fit_mesh_explains(const struct fit_samples *samples, uint32_t *explained_p);

#endif
