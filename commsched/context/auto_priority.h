/* SPDX-License-Identifier: Apache-2.0 */
/** @file auto_priority.h
 *  Default priorities of collectives (TRYST_AUTO_PRIORITY).
 */
#ifndef TRYST_COMMSCHED_CONTEXT_AUTO_PRIORITY_H
#define TRYST_COMMSCHED_CONTEXT_AUTO_PRIORITY_H

#include <stdint.h>

#include "tryst/types.h"

/** Note that this rank begins period `period` of the group in `step`, with a submission
 *  that follows: coll_host.period_began. `owner` is the context. */
void auto_priority_begin(void *owner, tryst_step *step, uint64_t period);

#endif
