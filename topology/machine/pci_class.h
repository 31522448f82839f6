/* SPDX-License-Identifier: Apache-2.0 */
/* What a PCI device is, from its class and vendor. Callers: hwloc's, hwloc's XML's and sysfs's readers. */
#ifndef TRYST_TOPOLOGY_PCI_CLASS_H
#define TRYST_TOPOLOGY_PCI_CLASS_H

#include <stdbool.h>

/* Intel, NVIDIA and AMD make GPUs; other display controllers are consoles of management boards or of virtual
 * machines. Class 0x12 are accelerators without a display. `class` has 16 bits. */
static inline bool pci_is_gpu(unsigned class, unsigned vendor)
{
    bool maker = vendor == 0x10de || vendor == 0x1002 || vendor == 0x8086;
    return (class >> 8 == 0x03 && maker) || class >> 8 == 0x12;
}

static inline bool pci_is_nic(unsigned class)
{
    return class >> 8 == 0x02;
}

static inline bool pci_is_infiniband(unsigned class)
{
    return class == 0x0207;
}

static inline bool pci_is_nv_switch(unsigned class, unsigned vendor)
{
    return class == 0x0680 && vendor == 0x10de;
}

#endif
