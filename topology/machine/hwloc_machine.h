/* SPDX-License-Identifier: Apache-2.0 */
/* From a topology of hwloc's to the description of a machine; for detection and for imports alike. */
#ifndef TRYST_TOPOLOGY_HWLOC_MACHINE_H
#define TRYST_TOPOLOGY_HWLOC_MACHINE_H

#include <stdbool.h>

#include "hwloc_calls.h"
#include "machine.h"

/** A loaded topology that has its PCI devices: from `xml` (terminated) or, with NULL, this machine's. False: errno. */
bool hwloc_topology_open(const struct hwloc_calls *calls, const char *xml,
                         hwloc_topology_t *topology_p);

/** Fills `machine` (empty before) from a loaded topology; numbers get `origin`. TRYST_E_NOMEM. */
tryst_status hwloc_machine_read(const struct hwloc_calls *calls,
                                hwloc_topology_t topology, enum graph_origin origin,
                                struct machine *machine);

#endif
