/* SPDX-License-Identifier: Apache-2.0 */
/* A row of device kernels for tests whose calls only enqueue, as a device's do: the reference's
 * operations run when somebody finishes, lane by lane in the order asked for, as far as events let
 * them. A stage that forgot to wait then computes with what is not there yet. */
#ifndef TESTS_PIPELINE_DEFERRED_ROW_H
#define TESTS_PIPELINE_DEFERRED_ROW_H

#include "pipeline/device/device_kernels.h"

enum { DEFERRED_COMPUTE_FIRST, DEFERRED_WEIGHT_FIRST, DEFERRED_RANDOM };

/* The row; one stage of it at a time. */
const device_kernels *deferred_row(int order, uint64_t seed);

#endif
