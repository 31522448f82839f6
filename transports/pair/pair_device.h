/* SPDX-License-Identifier: Apache-2.0 */
/* Receives into device memory, for pair.c and pair_bulk.c. */
#ifndef TRANSPORTS_PAIR_DEVICE_H
#define TRANSPORTS_PAIR_DEVICE_H

#include "pair.h"

void pair_devices_init(struct pair_rail *rail);
void pair_devices_end(struct pair_rail *rail);
/* A slot for a message of op->bytes bytes that comes as host memory; false: no memory. */
bool pair_slot_take(struct pair_ep *ep, struct bulk *bulk);
/* The slot is full: on to the device; `done` follows. */
void pair_slot_place(struct pair_ep *ep, struct bulk *bulk);
/* Begin to read an offer of device memory; as pair_ops.device_read. */
enum pair_copy pair_device_read(struct pair_ep *ep, struct bulk *bulk);
/* Nothing of it is being copied: without a job from here on. */
void pair_job_drop(struct bulk *bulk);

#endif
