/* SPDX-License-Identifier: Apache-2.0 */
/* The planner of a group: the table of collectives/plan/planner.h. */
#ifndef TRYST_TOPOLOGY_PLANNER_PLANNER_H
#define TRYST_TOPOLOGY_PLANNER_PLANNER_H

#include "collectives/plan/planner.h"

extern const struct planner_ops planner_ops;

#endif
