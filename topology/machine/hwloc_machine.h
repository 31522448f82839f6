/* SPDX-License-Identifier: Apache-2.0 */
/* Make a machine's description from hwloc's topology: this machine's, or in tests an XML
 * file's. */
#ifndef TRYST_TOPOLOGY_MACHINE_HWLOC_MACHINE_H
#define TRYST_TOPOLOGY_MACHINE_HWLOC_MACHINE_H

#include <stdbool.h>

#include "hwloc_calls.h"
#include "machine.h"

/** Load a topology with its PCI devices: from `xml` (with NUL), or this machine's if
 *  `xml` is NULL. Returns false, with errno set, on failure. */
bool hwloc_topology_open(const struct hwloc_calls *calls, const char *xml,
                         hwloc_topology_t *topology_p);

/** Fill the empty `machine` from a loaded topology; numbers get `origin`.
 *  Returns TRYST_OK or TRYST_E_NOMEM. */
tryst_status hwloc_machine_read(const struct hwloc_calls *calls,
                                hwloc_topology_t topology, enum graph_origin origin,
                                struct machine *machine);

#endif
