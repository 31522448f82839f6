/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A machine's description from /sys alone, as far as /sys goes: what there is where hwloc is not.
 * `root` is "/sys", or a folder that looks like it (tests). A file that is not there is an unknown.
 * Callers: detection.
 */
#ifndef TRYST_TOPOLOGY_SYSFS_MACHINE_H
#define TRYST_TOPOLOGY_SYSFS_MACHINE_H

#include "machine.h"

/** Packages, NUMA nodes, GPUs and NICs with their bridges. TRYST_E_NOMEM. */
tryst_status sysfs_machine_read(const char *root, struct machine *machine);

#endif
