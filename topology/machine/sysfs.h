/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers of /sys that hwloc's tree lacks.
 *
 * One idea: hwloc gives the tree; the numbers that it lacks (a PCI link's maximum speed,
 * a port's rate) are read here, by PCI address and by name.
 * `root` is "/sys" or, in tests, a folder of the same form. A missing file means an
 * unknown number.
 */
#ifndef TRYST_TOPOLOGY_MACHINE_SYSFS_H
#define TRYST_TOPOLOGY_MACHINE_SYSFS_H

#include "machine.h"

/** Set generation and width of each PCI device: the highest speed that both ends support
 *  (an idle GPU runs slower) and the current width (a slot may have fewer lanes). A
 *  larger bandwidth of hwloc is kept. */
void sysfs_pci_fill(const char *root, struct machine *machine);

/** Set rates and kinds of ports, by the name of their device or interface. */
void sysfs_ports_fill(const char *root, struct machine *machine);

#endif
