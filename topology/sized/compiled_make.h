/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled plans from chosen sizes, and for equal links. Callers: commsched/context/group_plan.c. */
#ifndef TRYST_TOPOLOGY_COMPILED_MAKE_H
#define TRYST_TOPOLOGY_COMPILED_MAKE_H

#include "compiled.h"
#include "plan_sizes.h"

/* The assumed rate of a link of unknown rate: 10 Gbit/s. Where no rate is known the flag COMPILED_RATES_ASSUMED is set. */
#define COMPILED_RATE_ASSUMED UINT64_C(1250000000)

struct compiled_params {
    uint32_t epoch;
    const uint32_t *members; /* NULL: 0, 1, 2… */
};

/** Of plans chosen for their sizes, one for each operation, for one group of at least two ranks. TRYST_E_NOMEM. */
tryst_status compiled_plan_make(struct overlay *overlay,
                                const struct plan_sizes *const *sizes, uint32_t count,
                                const struct compiled_params *params, struct err *err,
                                struct compiled_plan **plan_p);

/** An all-reduce over links that are all alike, without an overlay: the same on every machine. TRYST_E_NOMEM. */
tryst_status compiled_plan_equal(uint32_t ranks_count,
                                 const struct compiled_params *params, struct err *err,
                                 struct compiled_plan **plan_p);

#endif
