/* SPDX-License-Identifier: Apache-2.0 */
/* This machine as hwloc sees it; see detect_hwloc.h. */
#include "detect_hwloc.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "hwloc_machine.h"

/* One thread at a time: what hwloc asks (libudev, libpciaccess) has a state for the process. */
static bool load(const struct hwloc_calls *calls, hwloc_topology_t topology)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    int rc = calls->hwloc_topology_load(topology);
    int kept = errno;
    pthread_mutex_unlock(&lock);
    errno = kept;
    return rc == 0;
}

bool hwloc_topology_open(const struct hwloc_calls *calls, const char *xml,
                         hwloc_topology_t *topology_p)
{
    hwloc_topology_t topology;
    if (calls->hwloc_topology_init(&topology) != 0)
        return false;
    bool good = calls->hwloc_topology_set_io_types_filter(
                    topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT) == 0;
    if (good && xml)
        good =
            calls->hwloc_topology_set_xmlbuffer(topology, xml, (int)strlen(xml) + 1) == 0;
    if (good)
        good = load(calls, topology);
    if (good) {
        *topology_p = topology;
        return true;
    }
    int kept = errno;
    calls->hwloc_topology_destroy(topology);
    errno = kept;
    return false;
}

tryst_status detect_hwloc(struct err *err, struct machine *machine)
{
    const struct hwloc_calls *calls;
    hwloc_topology_t topology;
    tryst_status status = hwloc_calls_get(err, &calls);
    if (status != TRYST_OK)
        return status;
    if (!hwloc_topology_open(calls, NULL, &topology))
        return err_set(err, TRYST_E_SYSTEM, "hwloc cannot look at it: %s",
                       err_reason(errno));
    status = hwloc_machine_read(calls, topology, ORIGIN_DETECTED, machine);
    calls->hwloc_topology_destroy(topology);
    return status;
}
