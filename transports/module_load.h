/* SPDX-License-Identifier: Apache-2.0 */
/** @file module_load.h
 *  The loader of modules (module.h). */
#ifndef TRANSPORTS_MODULE_LOAD_H
#define TRANSPORTS_MODULE_LOAD_H

#include "transports/module.h"

/** Find tryst_<name>.so in the folder tryst/ beside the shared
 * library or beside it, else in the compiled-in folder, else in TRYST_MODULE_PATH; keep
 * and restore signal dispositions around the load. What was loaded is kept for the
 * process; a failure is tried anew by the next call. `text` (TRANSPORT_TEXT_MAX) says
 * what was found or why not. Any thread. TRYST_OK, TRYST_E_MODULE (found but refused;
 * logged), TRYST_E_UNSUPPORTED (no such file). */
tryst_status module_load(const tryst_host *host, const char *name,
                         const struct transport_ops **ops_p, char *text);

/** The same for a module's row of memory functions. (Whoever wants the kind asks
 * memory_ops_load: device.h.) */
tryst_status module_load_memory(const tryst_host *host, const char *name,
                                const struct memory_ops **memory_p, char *text);

/** Whether module_load would find a file; loads nothing. */
bool module_find(const tryst_host *host, const char *name, char *text);

#endif
