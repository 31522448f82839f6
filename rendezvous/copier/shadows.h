/* SPDX-License-Identifier: Apache-2.0 */
/** @file shadows.h
 *  Shadows: host memory through which collectives move the bytes of device tensors
 *  (shadows.c).
 *
 *  A shadow is pinned where the pool has a free piece, and plain memory otherwise. Plain
 *  memory serves as well, but its copies are slower, and peers of this host cannot map
 *  it. shadow_get never waits and calls no driver, so operations never wait for the pool,
 *  in whichever order ranks submit them.
 */
#ifndef TRYST_RENDEZVOUS_COPIER_SHADOWS_H
#define TRYST_RENDEZVOUS_COPIER_SHADOWS_H

#include <stdbool.h>
#include <stdint.h>

#include "tryst/status.h"

struct log;
struct memory_cache;
struct memory_ops;
struct shadows;
struct tryst_mem;

struct shadow {
    void *data; /**< aligned to 256 bytes; NULL for 0 bytes */
    uint64_t bytes;
    struct tryst_mem *mem; /**< region of the pinned memory; NULL: plain memory */
    /** Plain memory that shadow_pin has pinned: by these ops, of this device; or NULL. */
    const struct memory_ops *pinned_by;
    int32_t pinned_device;
};

/** True if copies of the shadow need not wait for the host. */
static inline bool shadow_is_pinned(const struct shadow *shadow)
{
    return shadow->mem || shadow->pinned_by;
}

/** Open a pool that pins at most `limit_bytes` (TRYST_SHADOW_BYTES; 0: nothing). Pins
 *  nothing yet. Pinned memory is registered with `cache`. */
tryst_status shadows_open(struct memory_cache *cache, const struct log *log,
                          uint64_t limit_bytes, struct shadows **shadows_p);
/** Close the pool; all shadows have come back, and the copier's thread has ended. NULL is
 *  allowed. */
void shadows_close(struct shadows *shadows);

/** Get `bytes` for copies from or to this device. Any thread; never waits. When no pinned
 *  piece is free, the pool notes that more should be pinned, unless `ops` is NULL: the
 *  driver has not started. TRYST_OK, TRYST_E_NOMEM. */
tryst_status shadow_get(struct shadows *shadows, const struct memory_ops *ops,
                        int32_t device, uint64_t bytes, struct shadow *shadow_p);
/** Pin a shadow in plain memory, for its own time; may wait for the device. On the
 *  copier's thread or under copier_hold. TRYST_OK; TRYST_E_NOMEM (the limit) or the
 *  driver's status: the shadow stays as it is. */
tryst_status shadow_pin(struct shadows *shadows, const struct memory_ops *ops,
                        int32_t device, struct shadow *shadow);
/** Give a shadow back: no copy and no transfer uses it any more. Any thread; never waits.
 *  `shadow` is zeroed. */
void shadow_put(struct shadows *shadows, struct shadow *shadow);

/** Pin an arena for the shadows that have been missed. While copies are in flight
 *  (`!idle`) they go first, for a short time. On the copier's thread or under
 *  copier_hold; may wait for the device. NULL is allowed. */
void shadows_pin(struct shadows *shadows, bool idle, uint64_t now_ns);
/** Demand free room as large as all shadows that are out, for the next shadows_pin. */
void shadows_reserve(struct shadows *shadows, const struct memory_ops *ops,
                     int32_t device);
/** Free all pinned memory; all shadows have come back. On the copier's thread. */
void shadows_unpin(struct shadows *shadows);

#endif
