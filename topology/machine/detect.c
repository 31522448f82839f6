/* SPDX-License-Identifier: Apache-2.0 */
#include "detect.h"

#include <stddef.h>

#include "hwloc_machine.h"
#include "machine_build.h"
#include "nvml.h"
#include "sysfs.h"

static tryst_status machine_read(struct err *err, struct machine *machine)
{
    tryst_status status = hwloc_machine_read(NULL, err, machine);
    if (status != TRYST_OK)
        return status;
    sysfs_pci_fill("/sys", machine);
    sysfs_ports_fill("/sys", machine);
    return nvml_fill(machine);
}

tryst_status graph_detect(struct err *err, struct graph **graph_p)
{
    static const struct machine_build build = {
        .prefix = "", .ranks = true, .network = GRAPH_NONE};
    struct machine machine = MACHINE_INIT;
    struct graph *graph = NULL;
    struct err why = ERR_INIT;
    tryst_status status = machine_read(&why, &machine);
    if (status == TRYST_OK)
        status = graph_open(&graph);
    if (status == TRYST_OK)
        status = machine_build(graph, &machine, &build, &why);
    if (status == TRYST_OK)
        status = graph_seal(graph, &why);
    machine_drop(&machine);
    if (status == TRYST_OK) {
        *graph_p = graph;
        return TRYST_OK;
    }
    graph_close(graph);
    return err_set(err, status, "cannot describe this machine: %s",
                   why.text[0] ? why.text : "out of memory");
}
