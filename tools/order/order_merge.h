/* SPDX-License-Identifier: Apache-2.0 */
/** @file order_merge.h
 *  One profile of those of a job's ranks. */
#ifndef TRYST_TOOLS_ORDER_ORDER_MERGE_H
#define TRYST_TOOLS_ORDER_ORDER_MERGE_H

#include "order_profile.h"

/** Merge `count` profiles, one at least: of those that have an operation, the slowest one
 *  decides when it is ready and how much computation is left after it. The merged profile
 *  is one computation, as long as the longest of all, with the operations beside it, so
 *  an order or groups of it fit all ranks. Names of operations stay.
 *
 *  Merging loses paths from one operation to another. Without such paths the bound is at
 *  least that of each profile, and equal to that of a single one.
 *
 *  NULL: an operation has not the same bytes in all; a line on stderr has the reason. */
struct order_profile *order_merge(struct order_profile *const *profiles, uint32_t count);

#endif
