/* SPDX-License-Identifier: Apache-2.0 */
/* Training data of tests: bytes drawn by the number of a micro-batch in the whole run, so
 * that the same data come whatever number of micro-batches a step has. */
#ifndef TRYST_TESTS_PIPELINE_WINDOWS_H
#define TRYST_TESTS_PIPELINE_WINDOWS_H

#include <tryst/pipeline.h>

struct windows {
    const tryst_model *model;
    int step_microbatches;
};

/** A tryst_feed_fn; `arg` is a struct windows. Inputs are below 16, and a target is a
 *  function of its input. Thread-safe. */
tryst_status windows_feed(void *arg, uint64_t step, int32_t microbatch, void *input,
                          uint8_t *target);

#endif
