/* SPDX-License-Identifier: Apache-2.0 */
/** @file period_graph.h
 *  The profile of a recorded period. */
#ifndef TRYST_COMMSCHED_PROFILE_PERIOD_GRAPH_H
#define TRYST_COMMSCHED_PROFILE_PERIOD_GRAPH_H

#include "period.h"

/** Make the profile of a whole period that has ended; `names` are the operations' names.
 *  NULL: no memory. */
struct tryst_profile *period_profile(const struct period *period,
                                     const char *const *names, uint32_t names_count);

#endif
