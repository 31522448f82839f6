/* SPDX-License-Identifier: Apache-2.0 */
/* The compiled plan for equal links, in closed form. */
#ifndef TRYST_COLLECTIVES_PLAN_COMPILED_EQUAL_H
#define TRYST_COLLECTIVES_PLAN_COMPILED_EQUAL_H

#include "compiled.h"

/** Compile an all-reduce over equal links in closed form, without an overlay: the same on
 *  every machine. By size: one tree (on one host, few ranks may exchange small
 *  tensors directly), then a direct exchange (up to 16 ranks; beyond, a
 *  pair of trees), then between machines a ring, up to 16 ranks. Returns TRYST_OK or
 *  TRYST_E_NOMEM. */
tryst_status compiled_plan_equal(uint32_t ranks_count,
                                 const struct compiled_params *params, struct err *err,
                                 struct compiled_plan **plan_p);

#endif
