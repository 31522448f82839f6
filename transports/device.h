/* SPDX-License-Identifier: Apache-2.0 */
/** @file device.h
 *  How the context opens what tryst/device.h hands out (behind a handle: memory/memory_ops.h).
 */
#ifndef TRANSPORTS_DEVICE_H
#define TRANSPORTS_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include "tryst/types.h"

struct tryst_device;
struct tryst_host;

/** tryst_device_count and tryst_device_open; `host` loads what drives the kind. `text` and `error`
 *  may be NULL. */
tryst_status device_count(const struct tryst_host *host, tryst_memory_kind kind,
                          int32_t *count_p, char *text, size_t capacity);
tryst_status device_open(const struct tryst_host *host, tryst_memory_kind kind,
                         int32_t ordinal, struct tryst_device **device_p, char *error,
                         size_t capacity);

#endif
