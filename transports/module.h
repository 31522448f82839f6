/* SPDX-License-Identifier: Apache-2.0 */
/** @file module.h
 *  The module ABI: what a loadable transport, or memory kind, sees of us, and we of it.
 *
 *  A module exports one symbol, TRYST_MODULE_ENTRY, links nothing of ours, and reaches
 * core only through this table, so one file works with the shared library, the static
 * one, and a library that was loaded RTLD_LOCAL. Its ABI id is the version below plus a
 * hash of the module headers (transport.h, memory/memory.h, memory/memory_ops.h, module.h, core/os/poller.h,
 * tryst/device.h, tryst/types.h, tryst/status.h), computed by the build into TRYST_MODULE_ABI_ID; one
 * that differs is refused. Modules are never unloaded. Built-in transports receive the
 * same table, so that both kinds are written alike.
 */
#ifndef TRANSPORTS_MODULE_H
#define TRANSPORTS_MODULE_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "transports/transport.h"
#include "tryst/types.h"

#define TRYST_MODULE_ABI_VERSION 2u
#define TRYST_MODULE_ENTRY       "tryst_module_v1"

struct poller;
struct poller_source;

/** What the library offers. The first two fields are where they are for ever; a module
 * looks at nothing else before it knows that the ids are equal. */
typedef struct tryst_host {
    uint32_t abi_version;   /**< TRYST_MODULE_ABI_VERSION */
    const char *abi_id;     /**< TRYST_MODULE_ABI_ID of the library */
    const void *config_arg; /**< the context's own: its configuration */
    const void *log_arg;    /**< and its log */

    void *(*alloc)(size_t bytes); /**< zeroed */
    void *(*alloc_aligned)(size_t alignment, size_t bytes);
    void (*free)(void *data);
    void (*log)(const struct tryst_host *host, tryst_log_level level, const char *text);
    uint64_t (*now_ns)(const struct tryst_host *host);
    /** Configuration value by name, as text; NULL when there is no such name. */
    const char *(*config)(const struct tryst_host *host, const char *name);
    /** The same for BYTES, TIME (ns), INT, BOOL and ENUM (index) rows; 0 for a STRING and
     * when there is no such name. */
    uint64_t (*config_number)(const struct tryst_host *host, const char *name);
    tryst_status (*poller_add)(struct poller *poller, struct poller_source *source);
    void (*poller_remove)(struct poller *poller, struct poller_source *source);
    /** This rail's registration of `mem`, made now if need be; NULL where the rail needs none. Domain:
     *  progress. */
    tryst_status (*mem_handle)(struct tryst_mem *mem, struct rail *rail, void **handle_p);
    /** A random number that the peer cannot guess. */
    uint64_t (*random_u64)(void);
    /** Could this process make `count` descriptors more just now (128 at most)? For libraries that
     * abort where they find none. */
    bool (*descriptors_left)(unsigned count);
} tryst_host;

/** What a module gives back: static data. Its first field, too, is where it is for ever.
 */
typedef struct tryst_module {
    const char *abi_id; /**< TRYST_MODULE_ABI_ID that it was built with */
    const char *name;
    const char *version;             /**< of the fabric's library, for tryst-info */
    const struct transport_ops *ops; /**< or NULL: no transport in it */
    const struct memory_ops *memory; /**< or NULL: no kind of memory in it */
} tryst_module;

/** The entry's type. `host` is valid during the call only (each rail gets its context's
 * own). When the host's id differs from its own, a module just returns its record, and is
 * refused by it. NULL: the fabric cannot start; the module has logged why. */
typedef const tryst_module *(*tryst_module_fn)(const tryst_host *host);

/** The table for a context (host.c). `config` and `log` must outlive it; a NULL log is
 * the process default. */
struct config;
struct log;
void module_host_init(tryst_host *host, const struct config *config,
                      const struct log *log);

#endif
