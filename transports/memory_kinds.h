/* SPDX-License-Identifier: Apache-2.0 */
/** @file memory_kinds.h
 *  Kinds of memory that come in a module.
 *
 *  Idea: a kind that is not built in is a module of its name, loaded when somebody first asks for
 *  such memory, so a run without device tensors maps no driver.
 */
#ifndef TRANSPORTS_MEMORY_KINDS_H
#define TRANSPORTS_MEMORY_KINDS_H

#include "transports/memory/memory_ops.h"

struct tryst_host;

/** The row of `kind`; what is a module (tryst_<name>.so) is loaded first, as module_load does. `text`
 *  (MEMORY_TEXT_MAX) names the devices, or says why there are none. A failure is tried anew
 *  by the next call. Any thread. TRYST_OK, TRYST_E_UNSUPPORTED (no such kind, no module, no
 *  driver, no device), TRYST_E_MODULE (found but refused; logged). */
tryst_status memory_ops_load(const struct tryst_host *host, tryst_memory_kind kind,
                             const struct memory_ops **ops_p, char *text);

#endif
