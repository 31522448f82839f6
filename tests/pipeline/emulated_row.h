/* SPDX-License-Identifier: Apache-2.0 */
/* A table of device kernels for tests: the CUDA kernels over the emulation, in host
 * memory. Everything but arithmetic is the reference's, and so are products, for which
 * the CUDA stages use cuBLASLt. */
#ifndef TRYST_TESTS_PIPELINE_EMULATED_ROW_H
#define TRYST_TESTS_PIPELINE_EMULATED_ROW_H

#include "pipeline/device/device_kernels.h"

/** Return the table; its sessions point to it. */
const struct device_kernels *emulated_row(void);

/** The order of tests/support/emulated_cuda.h, for C: 0 forward, 1 backward, 2 odd
 *  threads first. */
void emulated_order_set(int order);
uint64_t emulated_threads_count(void);

#endif
