/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a plan's document tells beside its trees and their proof: the steps of simplifying, and predicted times.
 *
 * Callers: plan_verify.c.
 */
#ifndef TRYST_TOPOLOGY_PLAN_TOLD_H
#define TRYST_TOPOLOGY_PLAN_TOLD_H

#include <jansson.h>

#include "topology/plan/plan.h"

/** Whether two sums of the same differ by rounding alone. */
bool told_near(double a, double b);
/** A member that must be a number. `what` is a sentence's subject ("tree 3"); "" for the document itself. */
tryst_status told_number(const json_t *object, const char *what, const char *member,
                         struct err *err, double *number_p);

/** Recomputes "predicted" and "by_size" from the overlay and the plan's trees and time, and the last step of
 *  "simplified"; each may be missing. The steps before cannot be recomputed: they must be numbers, in order.
 *  TRYST_E_NOMEM; TRYST_E_INVALID with what is wrong. */
tryst_status plan_told_verify(struct overlay *overlay, const struct plan *plan,
                              uint32_t root, const json_t *document, struct err *err);

#endif
