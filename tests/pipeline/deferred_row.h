/* SPDX-License-Identifier: Apache-2.0 */
/* A table of device kernels for tests; as on a device, calls only enqueue: the
 * reference's operations run when a lane is finished, lane by lane in the requested
 * order, as far as events allow. A stage with a missing wait then computes with data that
 * is not there yet. */
#ifndef TRYST_TESTS_PIPELINE_DEFERRED_ROW_H
#define TRYST_TESTS_PIPELINE_DEFERRED_ROW_H

#include "pipeline/device/device_kernels.h"

enum { DEFERRED_COMPUTE_FIRST, DEFERRED_WEIGHT_FIRST, DEFERRED_RANDOM };

/** Return the table; only one stage at a time may use it. */
const struct device_kernels *deferred_row(int order, uint64_t seed);

#endif
