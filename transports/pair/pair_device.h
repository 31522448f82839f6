/* SPDX-License-Identifier: Apache-2.0 */
/* Receives into device memory, for pair.c and pair_bulk.c. */
#ifndef TRYST_TRANSPORTS_PAIR_PAIR_DEVICE_H
#define TRYST_TRANSPORTS_PAIR_PAIR_DEVICE_H

#include "pair.h"

void pair_devices_init(struct pair_rail *rail);
void pair_devices_end(struct pair_rail *rail);
/** Get a slot for a message of op->bytes bytes that comes as host memory. False: out of
 *  memory. */
bool pair_slot_get(struct pair_ep *ep, struct bulk *bulk);
/** Copy the full slot to the device; `done` follows. */
void pair_slot_place(struct pair_ep *ep, struct bulk *bulk);
/** Begin to read an offer of device memory. Results as for pair_ops.device_read;
 *  PAIR_COPY_RETRY also for a receive into host memory. */
enum pair_copy pair_device_read(struct pair_ep *ep, struct bulk *bulk);
/** Free the bulk's job, if any; no copy of it may be under way. */
void pair_job_drop(struct bulk *bulk);

#endif
