/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Describe a machine from /sys alone, where libhwloc is missing.
 * `root` is "/sys" or, in tests, a folder of the same form. A missing file means an
 * unknown number.
 */
#ifndef TRYST_TOPOLOGY_MACHINE_SYSFS_MACHINE_H
#define TRYST_TOPOLOGY_MACHINE_SYSFS_MACHINE_H

#include "machine.h"

/** Read packages, NUMA nodes, GPUs and NICs with their bridges. Returns TRYST_OK or
 *  TRYST_E_NOMEM. */
tryst_status sysfs_machine_read(const char *root, struct machine *machine);

#endif
