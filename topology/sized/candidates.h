/* SPDX-License-Identifier: Apache-2.0 */
/* The sets of trees that plan_sizes.c prices: single trees, pairs, and parts of the plan. Callers: plan_sizes.c. */
#ifndef TRYST_TOPOLOGY_CANDIDATES_H
#define TRYST_TOPOLOGY_CANDIDATES_H

#include "topology/plan/plan.h"

/* Distinct trees with shares that sum to 1 but for rounding. */
struct candidate {
    struct plan_tree *trees; /* by descending share */
    uint32_t count;
};

struct candidates {
    struct overlay *overlay; /* the caller's, like the next */
    const struct plan *plan; /* its operation has one root */
    struct arrays arrays;    /* all below; the caller's too, until candidates_free */
    struct candidate *sets;  /* the simplest first; one at least */
    uint32_t count, room, trees_max;
};

/** TRYST_E_NOMEM. */
tryst_status candidates_make(struct candidates *candidates);
void candidates_free(struct candidates *candidates);

#endif
