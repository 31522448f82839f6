/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The numbers that /sys has beside hwloc's tree.
 *
 * One idea: hwloc gives the tree; the few numbers that it has not (a PCI link's greatest speed, a port's rate) are
 * read here, by PCI address and by name.
 * `root` is "/sys", or a folder that looks like it (tests). A file that is not there is an unknown.
 * Callers: detection.
 */
#ifndef TRYST_TOPOLOGY_SYSFS_H
#define TRYST_TOPOLOGY_SYSFS_H

#include "machine.h"

/** Generation and width of each PCI device: the greatest speed that both ends know (an idle GPU runs slower) and
 *  the width that runs now (a slot may have fewer lanes). Replaces a number of hwloc's that is smaller. */
void sysfs_pci_fill(const char *root, struct machine *machine);

/** Rates and kinds of ports, by name of their device or interface. */
void sysfs_ports_fill(const char *root, struct machine *machine);

#endif
