/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled plans from plans by size, and for equal links. */
#ifndef TRYST_TOPOLOGY_SIZED_COMPILED_MAKE_H
#define TRYST_TOPOLOGY_SIZED_COMPILED_MAKE_H

#include "compiled.h"
#include "plan_sizes.h"

/** The assumed rate of a link of unknown rate: 10 Gbit/s. If no rate is known, the flag
 *  COMPILED_RATES_ASSUMED is set. */
#define COMPILED_RATE_ASSUMED UINT64_C(1250000000)

struct compiled_params {
    uint32_t epoch;
    const uint32_t *members; /**< ranks in the job; NULL: 0, 1, 2… */
    /** For equal links: each rank is alone on its machine, so links are a network's. */
    bool apart;
};

/** Compile plans by size, one for each operation, all of one group of at least two ranks.
 *  Returns TRYST_OK or TRYST_E_NOMEM. */
tryst_status compiled_plan_make(struct overlay *overlay,
                                const struct plan_sizes *const *sizes, uint32_t count,
                                const struct compiled_params *params, struct err *err,
                                struct compiled_plan **plan_p);

/** Compile an all-reduce over equal links in closed form, without an overlay: the same on
 *  every machine. By size: one tree, then a direct exchange (up to 16 ranks; beyond, a
 *  pair of trees), then between machines a ring, up to 16 ranks. Returns TRYST_OK or
 *  TRYST_E_NOMEM. */
tryst_status compiled_plan_equal(uint32_t ranks_count,
                                 const struct compiled_params *params, struct err *err,
                                 struct compiled_plan **plan_p);

#endif
