/* SPDX-License-Identifier: Apache-2.0 */
/** @file cache.h
 *  One-shot collectives, kept prepared.
 */
#ifndef TRYST_COMMSCHED_COLL_CACHE_H
#define TRYST_COMMSCHED_COLL_CACHE_H

#include "run.h"

/** Find a kept collective with equal parameters, or prepare one and keep it. The
 *  caller gets a reference. */
tryst_status coll_find(struct colls *colls, tryst_group *group,
                       const tryst_coll_params *params, tryst_coll **coll_p);
/** Drop the kept collectives of `subgroup`; NULL: all. */
void coll_kept_drop(struct colls *colls, const tryst_subgroup *subgroup);

#endif
