/* SPDX-License-Identifier: Apache-2.0 */
/** @file merge.h
 *  One profile of those of a job's ranks.
 */
#ifndef TRYST_COMMSCHED_PROFILE_MERGE_H
#define TRYST_COMMSCHED_PROFILE_MERGE_H

#include "profile.h"

/** Merge `count` profiles, one at least: see tryst_profile_merge. */
tryst_status profile_merge(struct tryst_profile *const *profiles, uint32_t count,
                           struct err *err, struct tryst_profile **merged_p);

#endif
