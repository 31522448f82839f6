/* SPDX-License-Identifier: Apache-2.0 */
/* Which links look alike. Callers: plan_work.c. */
#ifndef TRYST_TOPOLOGY_PLAN_CLASS_H
#define TRYST_TOPOLOGY_PLAN_CLASS_H

#include "plan_work.h"

/** Classes of links that look alike: link → class. */
tryst_status plan_classes(const struct plan_work *work, uint32_t *class_p,
                          uint32_t *count_p);

#endif
