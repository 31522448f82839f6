/* SPDX-License-Identifier: Apache-2.0 */
/** @file hooks.h
 *  The hooks of a collective's flows, by the flow's position in its tree (run.h).
 */
#ifndef TRYST_COLLECTIVES_HOOKS_H
#define TRYST_COLLECTIVES_HOOKS_H

#include "run.h"

extern const struct flow_ops flow_up_from_child, flow_up_to_parent, flow_down_from_parent,
    flow_down_reusing, flow_down_to_child;

#endif
