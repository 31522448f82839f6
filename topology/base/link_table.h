/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What links of a kind carry, one way, in bytes/s, where nobody has measured: line rate less line coding.
 * Protocol headers are not taken off (about 5 to 20 % for PCIe, 10 to 20 % for NVLink): a probe does that.
 * Each row has its source. Callers: machine_build, importers.
 */
#ifndef TRYST_TOPOLOGY_LINK_TABLE_H
#define TRYST_TOPOLOGY_LINK_TABLE_H

#include "graph.h"

/* All give GRAPH_UNKNOWN for what is not in the table. */
double table_pci_bytes_per_s(unsigned generation, unsigned lanes);
double table_nvlink_bytes_per_s(unsigned generation, unsigned links);
/* Between two packages, by the processor's model name as /proc/cpuinfo and hwloc have it; `arch` as uname has
 * it (either may be NULL). */
double table_upi_bytes_per_s(const char *arch, const char *model);

/* PCI generation of "16.0 GT/s PCIe" as sysfs writes it; 0. */
unsigned table_pci_generation(const char *speed);
/* NVLink generation of a CUDA compute capability (90 for 9.0); 0. */
unsigned table_nvlink_generation(unsigned capability);
/* bytes/s of "400 Gb/sec (4X NDR)" as sysfs writes it; GRAPH_UNKNOWN. */
double table_infiniband_bytes_per_s(const char *rate);

/* A number by table; unknown when there is no row. */
struct graph_number table_number(double bytes_per_s);

#endif
