/* SPDX-License-Identifier: Apache-2.0 */
/* NVLinks and GPU models of this machine, by NVIDIA's driver library where there is one. */
#ifndef TRYST_TOPOLOGY_NVML_H
#define TRYST_TOPOLOGY_NVML_H

#include "machine.h"

/** Adds what the driver knows to the machine's GPUs, matched by PCI address. Without the library, or where it
 *  refuses, NVLinks stay unknown. TRYST_E_NOMEM. */
tryst_status nvml_fill(struct machine *machine);

/* The pure half, for tests: takes NVLinks as (GPU, far end's address or "" for what cannot be seen) one by one;
 * counts those of one pair together, and those to anything but a GPU as NVLink switches'. */
tryst_status nvml_link_add(struct machine *machine, uint32_t gpu, const char *far,
                           unsigned generation);

#endif
