/* SPDX-License-Identifier: Apache-2.0 */
/* Describe this machine by hwloc. Compiled only with TRYST_HAVE_HWLOC. */
#ifndef TRYST_TOPOLOGY_MACHINE_DETECT_HWLOC_H
#define TRYST_TOPOLOGY_MACHINE_DETECT_HWLOC_H

#include "machine.h"

/** Fill `machine`. Returns TRYST_OK, TRYST_E_NOMEM, TRYST_E_SYSTEM, or
 *  TRYST_E_UNSUPPORTED with `machine` unchanged if libhwloc is missing or too old. */
tryst_status detect_hwloc(struct err *err, struct machine *machine);

#endif
