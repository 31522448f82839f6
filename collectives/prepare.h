/* SPDX-License-Identifier: Apache-2.0 */
/** @file prepare.h
 *  Prepared collectives, the memory of their runs, and one-shot collectives.
 */
#ifndef TRYST_COLLECTIVES_PREPARE_H
#define TRYST_COLLECTIVES_PREPARE_H

#include "run.h"

/** Prepare a collective; `params` were checked. Writes a text for tryst_last_error. */
tryst_status coll_open(struct colls *colls, tryst_group *group,
                       const tryst_coll_params *params, tryst_coll **coll_p);
/** Get the group's plan, or binary trees where it has none. NULL: no memory. Any
 *  thread. */
const struct coll_plan *coll_plan_get(struct colls *colls, const tryst_group *group);
void coll_unref(tryst_coll *coll);
/** Get an idle run, or a new one, with its counters reset; NULL: no memory. Any
 *  thread. */
struct coll_run *coll_run_get(tryst_coll *coll);
/** Keep `run` for the next start of its collective. The flows of `run` have ended. */
void coll_run_put(struct coll_run *run);
/** Find a kept collective with equal parameters, or prepare one and keep it. The caller
 *  gets a reference. */
tryst_status coll_find(struct colls *colls, tryst_group *group,
                       const tryst_coll_params *params, tryst_coll **coll_p);
/** Drop the kept collectives of `subgroup`; NULL: all. */
void coll_kept_drop(struct colls *colls, const tryst_subgroup *subgroup);

#endif
