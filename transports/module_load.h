/* SPDX-License-Identifier: Apache-2.0 */
/** @file module_load.h
 *  The loader of modules (module.h). */
#ifndef TRYST_TRANSPORTS_MODULE_LOAD_H
#define TRYST_TRANSPORTS_MODULE_LOAD_H

#include "transports/module.h"

/** Load tryst_<name>.so and get its transport. Searched in this order: the folder tryst/
 *  beside the shared library, the folder of the shared library, the folders of
 *  TRYST_MODULE_PATH or, where it is empty, the compiled-in folder. Signal dispositions
 *  are saved and restored around the load. A loaded module stays for the life of the
 *  process; after a failure the next call tries again. `text` (TRANSPORT_TEXT_MAX)
 *  receives what was found, or the reason. Thread: any. TRYST_OK, TRYST_E_MODULE (found
 *  but refused, and logged; or this process can load no more modules),
 *  TRYST_E_UNSUPPORTED (no such file, or no transport in it). */
tryst_status module_load(const struct tryst_host *host, const char *name,
                         const struct transport_ops **ops_p, char *text);

/** Load tryst_<name>.so and get its memory ops, by the contract of module_load. Only
 *  memory_ops_load (device.h) should call this. */
tryst_status module_load_memory(const struct tryst_host *host, const char *name,
                                const struct memory_ops **memory_p, char *text);

/** Load tryst_<name>.so and get its planner, by the contract of module_load. */
tryst_status module_load_planner(const struct tryst_host *host, const char *name,
                                 const struct planner_ops **planner_p, char *text);

/** True if module_load would find a file; loads nothing. `text` (TRANSPORT_TEXT_MAX)
 *  receives the path, or the reason. */
bool module_find(const struct tryst_host *host, const char *name, char *text);

#endif
