/* SPDX-License-Identifier: Apache-2.0 */
#include "sysfs.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/os/fd.h"
#include "topology/base/link_table.h"

/* Read the first line of a file, without its line break; `fmt` makes the path. Returns
 * false, with "" in `line`, if the file is empty or cannot be read. */
__attribute__((format(printf, 3, 4))) static bool sysfs_line(char *line, size_t bytes,
                                                             const char *fmt, ...)
{
    char path[512];
    va_list args;
    va_start(args, fmt);
    int length = vsnprintf(path, sizeof path, fmt, args);
    va_end(args);
    line[0] = '\0';
    FILE *file =
        length > 0 && (size_t)length < sizeof path ? fd_file_open(path, "re") : NULL;
    if (!file)
        return false;
    bool read = fgets(line, (int)bytes, file) != NULL;
    fclose(file);
    line[strcspn(line, "\n")] = '\0';
    return read;
}

/* ---- PCI --------------------------------------------------------------------------- */

static unsigned lanes_read(const char *root, const char *address, const char *file)
{
    char line[64];
    if (!sysfs_line(line, sizeof line, "%s/bus/pci/devices/%s/%s", root, address, file))
        return 0;
    unsigned long lanes = strtoul(line, NULL, 10);
    return lanes <= 32 ? (unsigned)lanes : 0; /* the kernel writes 255 for unknown */
}

static unsigned generation_read(const char *root, const char *address, const char *file)
{
    char line[64];
    if (!sysfs_line(line, sizeof line, "%s/bus/pci/devices/%s/%s", root, address, file))
        return 0;
    return table_pci_generation(line);
}

static unsigned smaller_known(unsigned a, unsigned b)
{
    return !a ? b : !b ? a : a < b ? a : b;
}

static void device_fill(const char *root, struct machine *machine,
                        struct machine_pci *pci)
{
    const char *port =
        pci->parent == MACHINE_NONE ? NULL : machine->pci[pci->parent].address;
    unsigned generation = generation_read(root, pci->address, "max_link_speed");
    unsigned width = lanes_read(root, pci->address, "current_link_width");
    if (port && generation)
        generation =
            smaller_known(generation, generation_read(root, port, "max_link_speed"));
    if (!generation)
        generation = generation_read(root, pci->address, "current_link_speed");
    if (!width)
        width = lanes_read(root, pci->address, "max_link_width");
    double bytes_per_s = table_pci_bytes_per_s(generation, width);
    if (bytes_per_s == GRAPH_UNKNOWN || bytes_per_s < pci->bytes_per_s.value)
        return;
    pci->generation = (uint16_t)generation;
    pci->width = (uint16_t)width;
    pci->bytes_per_s = (struct graph_number){bytes_per_s, ORIGIN_DETECTED};
}

void sysfs_pci_fill(const char *root, struct machine *machine)
{
    for (uint32_t i = 0; i < machine->pci_count; i++)
        if (machine->pci[i].address && machine->pci[i].kind != PCI_HOST_BRIDGE)
            device_fill(root, machine, &machine->pci[i]);
}

/* ---- ports ------------------------------------------------------------------------- */

static bool openfabrics_fill(const char *root, struct machine_port *port)
{
    char line[128];
    if (!sysfs_line(line, sizeof line, "%s/class/infiniband/%s/ports/1/rate", root,
                    port->name))
        return false;
    double bytes_per_s = table_infiniband_bytes_per_s(line);
    if (bytes_per_s != GRAPH_UNKNOWN)
        port->bytes_per_s = (struct graph_number){bytes_per_s, ORIGIN_DETECTED};
    if (sysfs_line(line, sizeof line, "%s/class/infiniband/%s/ports/1/link_layer", root,
                   port->name))
        port->kind = strcmp(line, "InfiniBand") == 0 ? WIRE_INFINIBAND : WIRE_ETHERNET;
    return true;
}

void sysfs_ports_fill(const char *root, struct machine *machine)
{
    for (uint32_t i = 0; i < machine->ports_count; i++) {
        struct machine_port *port = &machine->ports[i];
        char line[64];
        if (openfabrics_fill(root, port) ||
            !sysfs_line(line, sizeof line, "%s/class/net/%s/speed", root, port->name))
            continue;
        double megabits = (double)strtol(line, NULL, 10); /* -1: unknown to the driver */
        if (megabits > 0)
            port->bytes_per_s =
                (struct graph_number){megabits * 1e6 / 8, ORIGIN_DETECTED};
    }
}
