/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turn hwloc's matrix of NVLinks into links of a machine.
 *
 * One idea: hwloc's matrix (NVLinkBandwidth) has the summed bandwidth in MB/s between any
 * two GPUs, NVLink switches and packages.
 * Invariant: a sum is known only if each part is.
 */
#ifndef TRYST_TOPOLOGY_MACHINE_NVLINK_MATRIX_H
#define TRYST_TOPOLOGY_MACHINE_NVLINK_MATRIX_H

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
    uint32_t number;             /**< index in `pci` or in `packages` */
    unsigned long long gp_index; /**< hwloc's number of the object, for messages */
};

/** Add the links of a `count` x `count` matrix. Returns false if out of memory. */
bool nvlink_matrix_join(struct machine *machine, const struct matrix_end *ends,
                        const unsigned long long *mb_per_s, size_t count,
                        enum graph_origin origin);

#endif
