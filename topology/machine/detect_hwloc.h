/* SPDX-License-Identifier: Apache-2.0 */
/* The description of this machine by hwloc. Compiled where Tryst is built with it (TRYST_HAVE_HWLOC).
 * Callers: detect.c. */
#ifndef TRYST_TOPOLOGY_DETECT_HWLOC_H
#define TRYST_TOPOLOGY_DETECT_HWLOC_H

#include "machine.h"

/** TRYST_E_UNSUPPORTED: no hwloc here (`machine` is as it was). TRYST_E_NOMEM, TRYST_E_SYSTEM. */
tryst_status detect_hwloc(struct err *err, struct machine *machine);

#endif
