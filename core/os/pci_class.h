/* SPDX-License-Identifier: Apache-2.0 */
/* The kind of a PCI device, by its class and ids. */
#ifndef TRYST_CORE_OS_PCI_CLASS_H
#define TRYST_CORE_OS_PCI_CLASS_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define PCI_MAKER_NVIDIA 0x10deu
#define PCI_MAKER_AMD    0x1002u
#define PCI_MAKER_INTEL  0x8086u
#define PCI_MAKER_XILINX 0x10eeu

/** `class` has 16 bits (base class, subclass); 0: the source lacks it. */
struct pci_id {
    unsigned class, maker, device;
};

enum pci_use {
    PCI_USE_OTHER,
    PCI_USE_GPU,
    PCI_USE_NIC,
    PCI_USE_NV_SWITCH,
    PCI_USE_BRIDGE,
    PCI_USE_CONSOLE,     /**< a display adapter that runs no rank */
    PCI_USE_ACCELERATOR, /**< a processing accelerator other than a GPU */
};

/** True if the device is an ATI chip up to 2005 (Rage, Radeon R100 to R400): as ES1000
 *  and Rage XL they are consoles of servers. AMD's GPUs for computing have other ids:
 *  0x1300 to 0x16ff, and 0x6600 and above. */
static inline bool pci_is_old_ati(const struct pci_id *id)
{
    return id->maker == PCI_MAKER_AMD && id->device >= 0x3000 && id->device < 0x6000;
}

/** Return the use of a display adapter. NVIDIA, AMD and Intel make GPUs; display adapters
 *  of other makers (ASPEED, Matrox, Cirrus, QEMU) are consoles of management boards or of
 *  virtual machines. A source without ids (NCCL's files of clouds) lists only devices for
 *  NCCL, so its display adapters are GPUs. */
static inline enum pci_use pci_display_use(const struct pci_id *id)
{
    bool maker = !id->maker || id->maker == PCI_MAKER_NVIDIA ||
                 id->maker == PCI_MAKER_AMD || id->maker == PCI_MAKER_INTEL;
    return maker && !pci_is_old_ati(id) ? PCI_USE_GPU : PCI_USE_CONSOLE;
}

/** Return the use of a device of class 0x12: GPUs without a display (AMD's and others'),
 *  Intel's NPUs of laptops, Xilinx's FPGAs. */
static inline enum pci_use pci_accelerator_use(const struct pci_id *id)
{
    bool gpu = id->maker != PCI_MAKER_INTEL && id->maker != PCI_MAKER_XILINX;
    return gpu ? PCI_USE_GPU : PCI_USE_ACCELERATOR;
}

static inline enum pci_use pci_use(const struct pci_id *id)
{
    if (id->class >> 8 == 0x03)
        return pci_display_use(id);
    if (id->class >> 8 == 0x12)
        return pci_accelerator_use(id);
    /* 0x0c06: InfiniBand HCAs up to 2007 */
    if (id->class >> 8 == 0x02 || id->class == 0x0c06)
        return PCI_USE_NIC;
    if (id->class == 0x0680 && (!id->maker || id->maker == PCI_MAKER_NVIDIA))
        return PCI_USE_NV_SWITCH;
    return id->class >> 8 == 0x06 ? PCI_USE_BRIDGE : PCI_USE_OTHER;
}

static inline bool pci_is_infiniband(unsigned class)
{
    return class == 0x0207 || class == 0x0c06;
}

/** True if hwloc's name of an OS device ("cuda0", "nvml1", "rsmi0", "ze0") belongs to a
 *  driver for computing. */
static inline bool osdev_computes(const char *name)
{
    static const char *const drivers[] = {"cuda", "nvml", "rsmi", "ze"};
    for (unsigned i = 0; i < sizeof drivers / sizeof drivers[0]; i++) {
        size_t length = strlen(drivers[i]);
        if (strncmp(name, drivers[i], length) == 0 && name[length] >= '0' &&
            name[length] <= '9')
            return true;
    }
    return false;
}

/** Return the reason for which a device is skipped, as a printf format of class, maker
 *  and device; NULL for other kinds. */
static inline const char *pci_skip_format(enum pci_use use)
{
    return use == PCI_USE_CONSOLE
               ? "a display adapter of a console (class %04x, ids %04x:%04x), not a GPU "
                 "of a rank"
           : use == PCI_USE_ACCELERATOR
               ? "an accelerator (class %04x, ids %04x:%04x), not a GPU of a rank"
               : NULL;
}

#endif
