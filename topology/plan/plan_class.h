/* SPDX-License-Identifier: Apache-2.0 */
/* Classes of links that look alike. */
#ifndef TRYST_TOPOLOGY_PLAN_PLAN_CLASS_H
#define TRYST_TOPOLOGY_PLAN_PLAN_CLASS_H

#include "plan_work.h"

/** Write each overlay link's class to `class_p` (classes number from 0), their number to
 *  `count_p`.
 *  Returns TRYST_OK or TRYST_E_NOMEM. */
tryst_status plan_classes(const struct plan_work *work, uint32_t *class_p,
                          uint32_t *count_p);

#endif
