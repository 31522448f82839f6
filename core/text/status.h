/* SPDX-License-Identifier: Apache-2.0 */
/* Predicates over statuses; names and texts are public (tryst/tryst.h). */
#ifndef TRYST_CORE_TEXT_STATUS_H
#define TRYST_CORE_TEXT_STATUS_H

#include <stdbool.h>

#include "tryst/status.h"

/** True if an operation may end with the error `status`: any error of the list but
 *  TRYST_E_TIMEOUT and TRYST_E_FORKED, which mean that the operation is not complete. */
bool status_is_outcome(tryst_status status);

#endif
