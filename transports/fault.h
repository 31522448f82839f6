/* SPDX-License-Identifier: Apache-2.0 */
/** @file fault.h
 *  A transport that misbehaves on purpose, around any other.
 *
 *  Idea: a rail whose inner rail is the real one. It keeps the contract of transport.h (each bulk
 *  is done once, `closed` comes last, nothing is called from inside a call) and breaks the network:
 *  so every error path above can be walked, over the real transport, repeatably.
 */
#ifndef TRANSPORTS_FAULT_H
#define TRANSPORTS_FAULT_H

#include "transports/transport.h"

struct fault_script;

/** The table of such rails. Its rail_open and probe are NULL: see below. */
extern const struct transport_ops fault_ops;

/** Open a rail of `inner` under `script` (copied). As transport_ops.rail_open, and rail->ops is set
 *  to fault_ops, through which all must go from then on. */
tryst_status fault_rail_open(const struct transport_ops *inner,
                             const struct fault_script *script,
                             const struct rail_params *params, struct rail **rail_p);

#endif
