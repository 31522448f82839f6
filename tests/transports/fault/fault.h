/* SPDX-License-Identifier: Apache-2.0 */
/** @file fault.h
 *  A transport that wraps another one and injects faults.
 *
 *  Tests link it (test_faults, or the library under lib/faults; README.md).
 *
 *  Idea: the real transport's rail is the inner rail of a rail here. Except under the
 *  script's `stuck`, the wrapper keeps the contract of transport.h (each bulk is done
 *  once, `closed` comes last, no event from inside a call), and only the network
 *  misbehaves. So each error path above can be tested over the real transport,
 *  repeatably.
 */
#ifndef TRYST_TESTS_TRANSPORTS_FAULT_FAULT_H
#define TRYST_TESTS_TRANSPORTS_FAULT_FAULT_H

#include "fault_script.h"
#include "transports/transport.h"

/** The ops of the wrapper's rails. probe and rail_open are NULL: fault_rail_open opens
 *  these rails. */
extern const struct transport_ops fault_ops;

/** Open a rail of `inner` under `script` (copied). Contract and statuses of
 *  transport_ops.rail_open. rail->ops is fault_ops, and all later calls go through it. */
tryst_status fault_rail_open(const struct transport_ops *inner,
                             const struct fault_script *script,
                             const struct rail_params *params, struct rail **rail_p);

/** Return the script of the environment variable TRYST_FAULT; NULL: it is unset. A script
 *  that does not parse ends the process. Any thread. */
const struct fault_script *fault_script_find(void);

#endif
