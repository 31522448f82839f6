/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bandwidths of links that were not measured, one way, in bytes/s: line rate less line
 * coding; between packages NCCL's effective rates.
 * Protocol headers (about 5 to 20 % for PCIe, 10 to 20 % for NVLink) are not subtracted;
 * a probe measures them.
 * Each row names its source.
 */
#ifndef TRYST_TOPOLOGY_BASE_LINK_TABLE_H
#define TRYST_TOPOLOGY_BASE_LINK_TABLE_H

#include "graph.h"

/** Each function for a bandwidth returns GRAPH_UNKNOWN for a link that is not in the
 *  table. */
double table_pci_bytes_per_s(unsigned generation, unsigned lanes);
double table_nvlink_bytes_per_s(unsigned generation, unsigned links);
/** Return the bandwidth between two packages. `arch` is the machine name of uname,
 *  `model` the processor's model name of /proc/cpuinfo and hwloc; either may be NULL. */
double table_upi_bytes_per_s(const char *arch, const char *model);

/** Return the PCI generation of "16.0 GT/s PCIe" (as in sysfs); 0 where unknown. */
unsigned table_pci_generation(const char *speed);
/** Return the NVLink generation of a CUDA compute capability (90 for 9.0); 0 where
 *  unknown. */
unsigned table_nvlink_generation(unsigned capability);
/** Return the bytes/s of "400 Gb/sec (4X NDR)" (as in sysfs); GRAPH_UNKNOWN where
 *  malformed. */
double table_infiniband_bytes_per_s(const char *rate);

/** Make a number of origin ORIGIN_TABLE, or of ORIGIN_NONE where `bytes_per_s` is
 *  GRAPH_UNKNOWN. */
struct graph_number table_number(double bytes_per_s);

#endif
