/* SPDX-License-Identifier: Apache-2.0 */
/** @file device.h
 *  Kinds of memory that come in a module, and how the context opens the handles of
 *  tryst/device.h (struct tryst_device: memory/memory_ops.h).
 */
#ifndef TRYST_TRANSPORTS_DEVICE_H
#define TRYST_TRANSPORTS_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transports/memory/memory_ops.h"
#include "tryst/types.h"

struct tryst_device;
struct tryst_host;

/** Get the memory ops of `kind`. The kind's module (tryst_<name>.so) is loaded when the
 *  first caller needs such memory, so a run without device tensors maps no driver. `text`
 *  (MEMORY_TEXT_MAX) names the devices, or gives the reason why there are none. After a
 *  failure the next call tries again. Thread: any. TRYST_OK, TRYST_E_UNSUPPORTED (no such
 *  kind, module, driver or device), TRYST_E_MODULE (module_load.h). */
tryst_status memory_ops_load(const struct tryst_host *host, tryst_memory_kind kind,
                             const struct memory_ops **ops_p, char *text);

/** True if there is a file of the module for `kind`; loads nothing. `text`
 *  (MEMORY_TEXT_MAX) receives the path, or the reason; it stays unset for a kind that
 *  comes in no module. Thread: any. */
bool device_kind_find(const struct tryst_host *host, tryst_memory_kind kind, char *text);

/** Implement tryst_device_count and tryst_device_open; `host` loads the kind's module.
 *  `text` may be NULL. */
tryst_status device_count(const struct tryst_host *host, tryst_memory_kind kind,
                          int32_t *count_p, char *text, size_t capacity);
tryst_status device_open(const struct tryst_host *host, tryst_memory_kind kind,
                         int32_t ordinal, struct tryst_device **device_p);

#endif
