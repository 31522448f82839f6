/* SPDX-License-Identifier: Apache-2.0 */
#include "detect.h"

#include <stddef.h>
#include <sys/utsname.h>

#include "hwloc_machine.h"
#include "machine_build.h"
#include "nvml.h"
#include "sysfs.h"
#include "sysfs_machine.h"

/* Set the machine's name and architecture where hwloc has none. */
static tryst_status names_fill(struct machine *machine)
{
    struct utsname system;
    if (uname(&system) != 0)
        return TRYST_OK;
    const char *name = machine_string(machine, system.nodename);
    const char *arch = machine_string(machine, system.machine);
    if (!name || !arch)
        return TRYST_E_NOMEM;
    if (!machine->name && *name)
        machine->name = name;
    if (!machine->arch)
        machine->arch = arch;
    return TRYST_OK;
}

static tryst_status tree_read(struct err *err, struct machine *machine)
{
    tryst_status status = hwloc_machine_read(NULL, err, machine);
    return status == TRYST_E_UNSUPPORTED ? sysfs_machine_read("/sys", machine) : status;
}

static tryst_status machine_read(struct err *err, struct machine *machine)
{
    tryst_status status = tree_read(err, machine);
    if (status == TRYST_OK)
        status = names_fill(machine);
    if (status == TRYST_OK) {
        sysfs_pci_fill("/sys", machine);
        sysfs_ports_fill("/sys", machine);
        status = nvml_fill(machine);
    }
    return status;
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
