/* SPDX-License-Identifier: Apache-2.0 */
/* Which sets of ranks share a wire; private to fit.c. */
#ifndef TRYST_TOPOLOGY_FIT_CUTS_H
#define TRYST_TOPOLOGY_FIT_CUTS_H

#include <assert.h>

#include "fit.h"

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
