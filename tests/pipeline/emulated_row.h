/* SPDX-License-Identifier: Apache-2.0 */
/* A row of device kernels for tests: the CUDA kernels over the emulation, in host memory. Products,
 * which are cuBLASLt's there, are the reference's, and so is everything but arithmetic. */
#ifndef TESTS_PIPELINE_EMULATED_ROW_H
#define TESTS_PIPELINE_EMULATED_ROW_H

#include "pipeline/device/device_kernels.h"

/* The row; its sessions know it as theirs. */
const device_kernels *emulated_row(void);

/* tests/support/emulated_cuda.h, for C: 0 forward, 1 backward, 2 odd threads first. */
void emulated_order_set(int order);
uint64_t emulated_threads_count(void);

#endif
