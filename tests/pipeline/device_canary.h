/* SPDX-License-Identifier: Apache-2.0 */
/* A canary on a fake device: its calls are queued in its stream and run there, after the
 * events that were passed with them; canary.h describes the checks. */
#ifndef TRYST_TESTS_PIPELINE_DEVICE_CANARY_H
#define TRYST_TESTS_PIPELINE_DEVICE_CANARY_H

#include "canary.h"

/** Turn an initialised canary into a canary on the device; `self->base` keeps working. */
void device_canary_init(struct canary *self);
/** Queue canary_begin of a step, or of the `last` one, and canary_end. */
void device_canary_begin(struct canary *self, uint64_t step, bool last);
void device_canary_end(struct canary *self);
/** Wait for queued work. */
void device_canary_finish(struct canary *self);
void device_canary_close(struct canary *self);

#endif
