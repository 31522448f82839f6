/* SPDX-License-Identifier: Apache-2.0 */
/* The sets of trees that plan_sizes.c prices: single trees, pairs, and parts of the
 * plan. */
#ifndef TRYST_TOPOLOGY_SIZED_CANDIDATES_H
#define TRYST_TOPOLOGY_SIZED_CANDIDATES_H

#include "topology/plan/plan.h"

/** Distinct trees with shares that sum to 1, up to rounding. */
struct candidate {
    struct plan_tree *trees; /**< by descending share */
    uint32_t count;
};

struct candidates {
    struct overlay *overlay; /**< set by the caller */
    const struct plan *plan; /**< set by the caller; of an operation with one root */
    /** Memory of the sets; the caller may take more from it until candidates_free. */
    struct arrays arrays;
    struct candidate *sets; /**< at least one, the simplest first */
    /** number of sets; room for sets; most trees of a set */
    uint32_t count, room, trees_max;
};

/** Make the sets; the caller sets `overlay` and `plan`, the rest is zero. Returns
 *  TRYST_OK or TRYST_E_NOMEM; in both cases the caller calls candidates_free. */
tryst_status candidates_make(struct candidates *candidates);
void candidates_free(struct candidates *candidates);

#endif
