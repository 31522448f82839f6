/* SPDX-License-Identifier: Apache-2.0 */
/** @file auto_priority.h
 *  Default priorities of collectives (TRYST_AUTO_PRIORITY).
 */
#ifndef TRYST_COLLECTIVES_AUTO_PRIORITY_H
#define TRYST_COLLECTIVES_AUTO_PRIORITY_H

#include "commsched/profile/recorder.h"
#include "prepare.h"

/** Give `op`, of `coll`, its default priority, if there is one and the caller gave none.
 *  `op` is recorded and not yet submitted. May submit a collective of the library. Any
 *  thread. */
void auto_priority_set(const tryst_coll *coll, tryst_op *op,
                       const struct recorder_submitted *submitted);

#endif
