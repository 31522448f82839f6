/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hwloc's matrix of NVLinks as links of a machine.
 *
 * One idea: hwloc (NVLinkBandwidth) gives the sum of the links between any two of GPUs, NVLink switches and packages, in
 * MB/s; the library's matrix and the one in an XML file become the same links.
 * Invariant: a sum is known only where each part is. Callers: readers of hwloc and of hwloc's XML.
 */
#ifndef TRYST_TOPOLOGY_NVLINK_MATRIX_H
#define TRYST_TOPOLOGY_NVLINK_MATRIX_H

#include <stddef.h>

#include "machine.h"

enum matrix_end_kind {
    MATRIX_UNKNOWN,
    MATRIX_GPU,
    MATRIX_SWITCH,
    MATRIX_PACKAGE,
};

struct matrix_end {
    enum matrix_end_kind kind;
    uint32_t number;             /* in `pci`, or in `packages` */
    unsigned long long gp_index; /* hwloc's, for people */
};

/** Add the links of a `count` x `count` matrix. False without memory. */
bool nvlink_matrix_join(struct machine *machine, const struct matrix_end *ends,
                        const unsigned long long *mb_per_s, size_t count,
                        enum graph_origin origin);

#endif
