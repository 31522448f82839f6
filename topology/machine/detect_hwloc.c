/* SPDX-License-Identifier: Apache-2.0 */
#include "detect_hwloc.h"

#include <errno.h>

#include "hwloc_machine.h"

tryst_status detect_hwloc(struct err *err, struct machine *machine)
{
    const struct hwloc_calls *calls;
    hwloc_topology_t topology;
    tryst_status status = hwloc_calls_get(err, &calls);
    if (status != TRYST_OK)
        return status;
    if (!hwloc_topology_open(calls, NULL, &topology))
        return err_set(err, TRYST_E_SYSTEM, "hwloc cannot load the topology: %s",
                       err_reason(errno));
    status = hwloc_machine_read(calls, topology, ORIGIN_DETECTED, machine);
    calls->hwloc_topology_destroy(topology);
    return status;
}
