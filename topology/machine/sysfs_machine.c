/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See sysfs_machine.h.
 *
 * NUMA nodes are read in their order, with a package for each physical_package_id; each
 * GPU's and NIC's bridges are read from the path to which its link in bus/pci/devices
 * points.
 */
#include "sysfs_machine.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/os/fd.h"
#include "pci_class.h"
#include "sysfs_file.h"
#include "topology/base/index_set.h"

#define CPUS_BYTES 1024

/* ---- packages and NUMA nodes ------------------------------------------------------- */

static uint32_t package_find(const struct machine *machine, uint32_t os_index)
{
    for (uint32_t i = 0; i < machine->packages_count; i++)
        if (machine->packages[i].os_index == os_index)
            return i;
    return MACHINE_NONE;
}

/* Find the package of a list's first CPU ("4-7,12": 4), or add it if it is new.
 * *package_p is MACHINE_NONE if /sys does not name the package. */
static tryst_status package_of(const char *root, struct machine *machine,
                               const char *cpus, uint32_t *package_p)
{
    char line[CPUS_BYTES];
    unsigned long cpu = strtoul(cpus, NULL, 10);
    *package_p = MACHINE_NONE;
    if (!*cpus || !sysfs_line(line, sizeof line,
                              "%s/devices/system/cpu/cpu%lu/topology/physical_package_id",
                              root, cpu))
        return TRYST_OK;
    uint32_t os_index = (uint32_t)strtoul(line, NULL, 10);
    *package_p = package_find(machine, os_index);
    if (*package_p != MACHINE_NONE)
        return TRYST_OK;
    sysfs_line(line, sizeof line,
               "%s/devices/system/cpu/cpu%lu/topology/package_cpus_list", root, cpu);
    const char *list = *line ? machine_string(machine, line) : NULL;
    struct machine_package *package = machine_package_add(machine);
    if (!package || (*line && !list))
        return TRYST_E_NOMEM;
    package->os_index = os_index;
    package->cpus = list;
    *package_p = machine->packages_count - 1;
    return TRYST_OK;
}

/* Add NUMA node `os_index` if it has a folder. */
static tryst_status numa_read(const char *root, struct machine *machine,
                              uint32_t os_index)
{
    char cpus[CPUS_BYTES];
    uint32_t package;
    if (!sysfs_line(cpus, sizeof cpus, "%s/devices/system/node/node%u/cpulist", root,
                    os_index))
        return TRYST_OK;
    tryst_status status = package_of(root, machine, cpus, &package);
    const char *list = machine_string(machine, cpus);
    if (status != TRYST_OK || !list)
        return TRYST_E_NOMEM;
    struct machine_numa *numa = machine_numa_add(machine);
    if (!numa)
        return TRYST_E_NOMEM;
    numa->os_index = os_index;
    numa->package = package;
    numa->cpus = list;
    return TRYST_OK;
}

/* Read all NUMA nodes. Their numbers may have gaps: `online` is a list such as
 * "0-1,8". */
static tryst_status numas_read(const char *root, struct machine *machine)
{
    char online[CPUS_BYTES];
    struct index_set nodes;
    tryst_status status = TRYST_OK;
    sysfs_line(online, sizeof online, "%s/devices/system/node/online", root);
    if (!index_set_parse(online, &nodes))
        return status;
    for (uint32_t i = 0; status == TRYST_OK && i < INDEX_SET_MAX; i++)
        if (index_set_has(&nodes, i))
            status = numa_read(root, machine, i);
    return status;
}

/* ---- PCI --------------------------------------------------------------------------- */

static unsigned long hex_read(const char *root, const char *address, const char *file)
{
    char line[64];
    sysfs_line(line, sizeof line, "%s/bus/pci/devices/%s/%s", root, address, file);
    return strtoul(line, NULL, 16);
}

static uint32_t numa_of(const char *root, const struct machine *machine,
                        const char *address)
{
    char line[64];
    sysfs_line(line, sizeof line, "%s/bus/pci/devices/%s/numa_node", root, address);
    for (uint32_t i = 0; *line && i < machine->numas_count; i++)
        if ((long)machine->numas[i].os_index == strtol(line, NULL, 10))
            return i;
    return machine->numas_count == 1 ? 0 : MACHINE_NONE;
}

/* Find a folder's first entry in alphabetic order, without dot files. Returns false if
 * there is none. */
static bool folder_first(const char *path, char *name, size_t bytes)
{
    DIR *folder = fd_folder_open(path);
    bool found = false;
    name[0] = '\0';
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        if (entry->d_name[0] != '.' && (!found || strcmp(entry->d_name, name) < 0)) {
            found = true;
            snprintf(name, bytes, "%s", entry->d_name);
        }
    if (folder)
        closedir(folder);
    return found;
}

/* Find the port's name, "mlx5_0" or "eth0": in infiniband/ before net/; for virtio, net/
 * is one level deeper. */
static bool port_name(const char *root, const char *address, char *name, size_t bytes)
{
    char path[PATH_MAX];
    static const char *const folders[] = {"infiniband",  "net",         "virtio0/net",
                                          "virtio1/net", "virtio2/net", "virtio3/net",
                                          "virtio4/net"};
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        snprintf(path, sizeof path, "%s/bus/pci/devices/%s/%s", root, address,
                 folders[i]);
        if (folder_first(path, name, bytes))
            return true;
    }
    return false;
}

static struct machine_pci *pci_add(struct machine *machine, enum machine_pci_kind kind,
                                   const char *address, uint32_t parent, uint32_t numa)
{
    const char *kept = machine_string(machine, address);
    struct machine_pci *pci = kept ? machine_pci_add(machine, kind) : NULL;
    if (!pci)
        return NULL;
    pci->address = kept;
    pci->parent = parent;
    pci->numa = numa;
    pci->package = numa == MACHINE_NONE ? MACHINE_NONE : machine->numas[numa].package;
    return pci;
}

/* Add the bridges of a device's path, ".../pci0000:00/0000:00:01.0/0000:01:00.0";
 * *parent_p is the index of the last one; MACHINE_NONE: the path has none. */
static tryst_status bridges_read(struct machine *machine, char *path, const char *address,
                                 uint32_t numa, uint32_t *parent_p)
{
    char *rest = NULL;
    uint32_t parent = MACHINE_NONE;
    for (char *step = strtok_r(path, "/", &rest); step;
         step = strtok_r(NULL, "/", &rest)) {
        bool host = strncmp(step, "pci", 3) == 0 && strchr(step, ':');
        bool bridge = strlen(step) == strlen("0000:00:00.0") && step[4] == ':';
        if (strcmp(step, address) == 0 || (!host && !bridge))
            continue;
        const char *name = host ? step + 3 : step;
        uint32_t known = machine_pci_find(machine, name);
        if (known == MACHINE_NONE) {
            if (!pci_add(machine, host ? PCI_HOST_BRIDGE : PCI_BRIDGE, name, parent,
                         numa))
                return TRYST_E_NOMEM;
            known = machine->pci_count - 1;
        }
        parent = known;
    }
    *parent_p = parent;
    return TRYST_OK;
}

static tryst_status nic_name(const char *root, struct machine *machine,
                             const char *address)
{
    char name[256];
    if (!port_name(root, address, name, sizeof name))
        return TRYST_OK;
    const char *kept = machine_string(machine, name);
    struct machine_port *port = kept ? machine_port_add(machine) : NULL;
    if (!port)
        return TRYST_E_NOMEM;
    port->nic = machine->pci_count - 1;
    port->name = kept;
    port->kind = WIRE_ETHERNET;
    machine->pci[port->nic].name = kept;
    return TRYST_OK;
}

static tryst_status device_read(const char *root, struct machine *machine,
                                const char *address)
{
    char link[PATH_MAX], path[PATH_MAX];
    const struct pci_id id = {(unsigned)(hex_read(root, address, "class") >> 8),
                              (unsigned)hex_read(root, address, "vendor"),
                              (unsigned)hex_read(root, address, "device")};
    enum pci_use use = pci_use(&id);
    bool gpu = use == PCI_USE_GPU;
    if (pci_skip_format(use) && !machine_skip(machine, address, pci_skip_format(use),
                                              id.class, id.maker, id.device))
        return TRYST_E_NOMEM;
    if (!gpu && use != PCI_USE_NIC)
        return TRYST_OK;
    snprintf(link, sizeof link, "%s/bus/pci/devices/%s", root, address);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    uint32_t parent, numa = numa_of(root, machine, address);
    tryst_status status = bridges_read(machine, path, address, numa, &parent);
    if (status != TRYST_OK)
        return status;
    if (!pci_add(machine, gpu ? PCI_GPU : PCI_NIC, address, parent, numa))
        return TRYST_E_NOMEM;
    return gpu ? TRYST_OK : nic_name(root, machine, address);
}

static tryst_status devices_read(const char *root, struct machine *machine)
{
    char path[PATH_MAX];
    struct dirent **entries = NULL;
    tryst_status status = TRYST_OK;
    snprintf(path, sizeof path, "%s/bus/pci/devices", root);
    int count = scandir(path, &entries, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        if (status == TRYST_OK && entries[i]->d_name[0] != '.')
            status = device_read(root, machine, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return status;
}

tryst_status sysfs_machine_read(const char *root, struct machine *machine)
{
    tryst_status status = numas_read(root, machine);
    return status == TRYST_OK ? devices_read(root, machine) : status;
}
