/* SPDX-License-Identifier: Apache-2.0 */
/* Describe this machine by hwloc. Compiled only with TRYST_HAVE_HWLOC. */
#ifndef TRYST_TOPOLOGY_MACHINE_DETECT_HWLOC_H
#define TRYST_TOPOLOGY_MACHINE_DETECT_HWLOC_H

#include "machine.h"

/** Fill `machine`. TRYST_E_UNSUPPORTED: libhwloc is missing or too old, and `machine` is
 *  unchanged. TRYST_E_NOMEM, TRYST_E_SYSTEM. */
tryst_status detect_hwloc(struct err *err, struct machine *machine);

#endif
