/* SPDX-License-Identifier: Apache-2.0 */
/** @file devices.h
 *  Starts the driver of devices: the module, the driver and a device's context, in a separate thread.
 */
#ifndef COMMSCHED_CONTEXT_DEVICES_H
#define COMMSCHED_CONTEXT_DEVICES_H

#include <pthread.h>

#include "tryst/tryst.h"

struct devices {
    pthread_mutex_t lock;
    struct devices_start *start; /**< under way, or NULL */
};

/** rendezvous_params.device_start. */
tryst_status devices_start(void *owner, tryst_memory_kind kind, int32_t device);
/** The context closes: wait for a start, TRYST_PEER_TIMEOUT at most, and leave it to its thread if it goes on. */
void devices_settle(tryst_ctx *ctx);

#endif
