/* SPDX-License-Identifier: Apache-2.0 */
/* A canary on a fake device: its calls are queued in a stream of its own and run there, after the
 * events that they were given; what it checks is what canary.h says. */
#ifndef TRYST_TESTS_DEVICE_CANARY_H
#define TRYST_TESTS_DEVICE_CANARY_H

#include "canary.h"

/* Make a canary that was initialised one of the device; it keeps working as `self->base`. */
void device_canary_init(canary *self);
/* Wait for what is queued: the update that ends a step. */
void device_canary_finish(canary *self);
void device_canary_close(canary *self);

#endif
