/* SPDX-License-Identifier: Apache-2.0 */
/** @file devices.h
 *  Starts a device's module, driver and context in a separate thread.
 */
#ifndef TRYST_CONTEXT_DEVICES_H
#define TRYST_CONTEXT_DEVICES_H

#include <pthread.h>

#include "tryst/tryst.h"

struct devices {
    pthread_mutex_t lock;
    struct devices_start *start; /**< the start under way, or NULL */
};

/** Start the driver of memory `kind` unless it is loaded
 *  (rendezvous_params.device_start). TRYST_OK: loaded, or the caller loads it itself;
 *  TRYST_IN_PROGRESS: a thread starts it; TRYST_E_NOMEM. Any thread. */
tryst_status devices_start(tryst_ctx *ctx, tryst_memory_kind kind, int32_t device);
/** Wait for a start under way, TRYST_PEER_TIMEOUT at most; a longer one is left to its
 *  thread. Called when the context closes. */
void devices_settle(tryst_ctx *ctx);

#endif
