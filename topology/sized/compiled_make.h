/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled plans from plans by size. */
#ifndef TRYST_TOPOLOGY_SIZED_COMPILED_MAKE_H
#define TRYST_TOPOLOGY_SIZED_COMPILED_MAKE_H

#include "collectives/plan/compiled.h"
#include "plan_sizes.h"

/** Compile plans by size, one for each operation, all of one group of at least two ranks.
 *  Returns TRYST_OK or TRYST_E_NOMEM. */
tryst_status compiled_plan_make(struct overlay *overlay,
                                const struct plan_sizes *const *sizes, uint32_t count,
                                const struct compiled_params *params, struct err *err,
                                struct compiled_plan **plan_p);

#endif
