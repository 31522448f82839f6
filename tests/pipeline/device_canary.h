/* SPDX-License-Identifier: Apache-2.0 */
/* A canary on a fake device: its calls are queued in its stream and run there, after the
 * events that were passed with them; canary.h describes the checks. */
#ifndef TRYST_TESTS_PIPELINE_DEVICE_CANARY_H
#define TRYST_TESTS_PIPELINE_DEVICE_CANARY_H

#include "canary.h"

/** Turn an initialised canary into a canary on the device; `self->base` keeps working. */
void device_canary_init(struct canary *self);
/** Wait for queued work, which is the update at the end of a step. */
void device_canary_finish(struct canary *self);
void device_canary_close(struct canary *self);

#endif
