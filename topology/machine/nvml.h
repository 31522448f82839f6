/* SPDX-License-Identifier: Apache-2.0 */
/* NVLinks and GPU models of this machine, from NVIDIA's driver library if it is
 * installed. */
#ifndef TRYST_TOPOLOGY_MACHINE_NVML_H
#define TRYST_TOPOLOGY_MACHINE_NVML_H

#include "machine.h"

/** Add models and NVLinks to the machine's GPUs, matched by PCI address. NVLinks stay
 *  unknown without the library or after an error of the library. Returns TRYST_OK or
 *  TRYST_E_NOMEM. */
tryst_status nvml_fill(struct machine *machine);

/** Add one NVLink from `gpu`; a link between two GPUs is added only by the call for the
 *  lower index, and a link to `gpu` itself is listed as skipped. `far` is the address of
 *  the far end; "": hidden. Links of one pair are one bundle; links to anything but a GPU
 *  are links to NVLink switches. Separate for tests. */
tryst_status nvml_link_add(struct machine *machine, uint32_t gpu, const char *far,
                           unsigned generation);

#endif
