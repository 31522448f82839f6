/* SPDX-License-Identifier: Apache-2.0 */
/** @file device.h
 *  Kinds of memory that come in a module, and how the context opens what tryst/device.h hands out (behind a
 *  handle: memory/memory_ops.h).
 */
#ifndef TRANSPORTS_DEVICE_H
#define TRANSPORTS_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transports/memory/memory_ops.h"
#include "tryst/types.h"

struct tryst_device;
struct tryst_host;

/** The row of `kind`; what is a module (tryst_<name>.so) is loaded when somebody first asks for such
 *  memory, so a run without device tensors maps no driver. `text` (MEMORY_TEXT_MAX) names the devices,
 *  or says why there are none. A failure is tried anew by the next call. Any thread. TRYST_OK,
 *  TRYST_E_UNSUPPORTED (no such kind, no module, no driver, no device), TRYST_E_MODULE (found but
 *  refused; logged). */
tryst_status memory_ops_load(const struct tryst_host *host, tryst_memory_kind kind,
                             const struct memory_ops **ops_p, char *text);

/** True if there is a module for `kind`, loaded or not. `text` (MEMORY_TEXT_MAX) receives what was found.
 *  Never blocks. Any thread. */
bool device_kind_find(const struct tryst_host *host, tryst_memory_kind kind, char *text);

/** tryst_device_count and tryst_device_open; `host` loads what drives the kind. `text` and `error`
 *  may be NULL. */
tryst_status device_count(const struct tryst_host *host, tryst_memory_kind kind,
                          int32_t *count_p, char *text, size_t capacity);
tryst_status device_open(const struct tryst_host *host, tryst_memory_kind kind,
                         int32_t ordinal, struct tryst_device **device_p);

#endif
