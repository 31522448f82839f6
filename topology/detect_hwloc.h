/* SPDX-License-Identifier: Apache-2.0 */
/* The description of this machine by hwloc; detect_hwloc_none.c stands in where Tryst is built without it. */
#ifndef TRYST_TOPOLOGY_DETECT_HWLOC_H
#define TRYST_TOPOLOGY_DETECT_HWLOC_H

#include "machine.h"
#include "source.h"

/** TRYST_E_UNSUPPORTED: no hwloc here (`machine` is as it was). TRYST_E_NOMEM, TRYST_E_SYSTEM. */
tryst_status detect_hwloc(struct err *err, struct machine *machine);

#endif
