/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of a document's further members: steps of simplifying, trees by size.
 */
#ifndef TRYST_TOPOLOGY_REPORT_PLAN_EXTRAS_H
#define TRYST_TOPOLOGY_REPORT_PLAN_EXTRAS_H

#include "core/source/json.h"
#include "topology/plan/plan.h"

/** True if two values are equal up to rounding. */
bool number_is_near(double a, double b);
/** Read a member that must be a number. `what` names the object in the error ("tree 3";
 *  "" for the document).
 *  Returns TRYST_OK or TRYST_E_INVALID. */
tryst_status number_member_read(const struct json *object, const char *what,
                                const char *member, struct err *err, double *number_p);

/** Check "by_size" and the last step of "simplified" by recomputing them from the
 *  overlay and the plan's trees and time; each may be missing. Earlier steps cannot be
 *  recomputed: only their order and types are checked.
 *  Returns: TRYST_E_INVALID  a member is wrong; `err` names it
 *           TRYST_E_NOMEM */
tryst_status plan_extras_verify(struct overlay *overlay, const struct plan *plan,
                                uint32_t root, const struct json *document,
                                struct err *err);

#endif
