/* SPDX-License-Identifier: Apache-2.0 */
/** @file module.h
 *  The module ABI: the interface between the library and a loadable transport, memory
 *  kind or planner.
 *
 *  A module exports one symbol, TRYST_MODULE_ENTRY, links no Tryst library, and reaches
 *  core only through this table (the planner has copies of core's functions instead). So
 *  one file works with the shared library, the static one, and a library that was loaded
 *  RTLD_LOCAL. Its ABI id is the version below plus a hash of the module headers
 *  (transport.h, memory/memory.h, memory/memory_ops.h, module.h, core/memory/urgency.h,
 *  core/os/poller.h, tryst/device.h, tryst/types.h, tryst/status.h,
 *  collectives/plan/planner.h, core/text/err.h), computed by the build. A module with
 *  another id is refused. Modules are never unloaded. Built-in transports receive the
 *  same table, so that both kinds are written alike.
 */
#ifndef TRYST_TRANSPORTS_MODULE_H
#define TRYST_TRANSPORTS_MODULE_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "transports/transport.h"
#include "tryst/types.h"

#define TRYST_MODULE_ABI_VERSION 5u
#define TRYST_MODULE_ENTRY       "tryst_module_v1"

struct planner_ops;
struct poller;
struct poller_source;

/** The functions and data that the library offers. The first two fields never move: a
 *  module compares the ids before it reads any other field. */
struct tryst_host {
    uint32_t abi_version;   /**< TRYST_MODULE_ABI_VERSION */
    const char *abi_id;     /**< TRYST_MODULE_ABI_ID of the library */
    const void *config_arg; /**< the context's configuration */
    const void *log_arg;    /**< the context's log; NULL is the process default */

    void *(*alloc)(size_t bytes); /**< returns zeroed memory */
    void *(*alloc_aligned)(size_t alignment, size_t bytes);
    void (*free)(void *data);
    void (*log)(const struct tryst_host *host, tryst_log_level level, const char *text);
    uint64_t (*now_ns)(const struct tryst_host *host);
    /** Get a configuration value by name, as text; NULL for an unknown name. */
    const char *(*config)(const struct tryst_host *host, const char *name);
    /** Get the value of a BYTES, TIME (ns), INT, BOOL or ENUM (index) row; 0 for a STRING
     *  and for an unknown name. */
    uint64_t (*config_number)(const struct tryst_host *host, const char *name);
    tryst_status (*poller_add)(struct poller *poller, struct poller_source *source);
    void (*poller_remove)(struct poller *poller, struct poller_source *source);
    /** Get this rail's registration of `mem`, made now if it does not exist; NULL where
     *  the rail needs none. Returns the status of the rail's mem_register.
     *  Domain: progress. */
    tryst_status (*mem_handle)(struct tryst_mem *mem, struct rail *rail, void **handle_p);
    /** Fill `secret_p` with unpredictable bytes. TRYST_OK, or TRYST_E_SYSTEM with
     *  errno: the kernel gives no random bytes. */
    tryst_status (*random_secret)(void *secret_p, size_t bytes);
    /** True if this process can open `count` more descriptors now (128 at most). For
     *  libraries that abort the process where they find none. */
    bool (*descriptors_left)(unsigned count);
    /** The context's gates: nothing is pinned, and no import opened, while one is closed
     *  (memory/closed_gates.h). NULL: there are none. */
    struct closed_gates *closed;
    /** The context's copies, with streams from before a gate closed: the rails use these,
     *  and the library polls them too. Domain: progress. NULL: a rail has its own. */
    struct copies *copies;
};

/** The record that a module returns: static data. Its first field never moves. */
struct tryst_module {
    const char *abi_id; /**< TRYST_MODULE_ABI_ID of its build */
    const char *name;
    const char *version; /**< version of the fabric's library, for tryst-info */
    const struct transport_ops *ops;   /**< NULL: the module has no transport */
    const struct memory_ops *memory;   /**< NULL: the module has no kind of memory */
    const struct planner_ops *planner; /**< NULL: the module has no planner */
};

/** The entry's type. `host` is valid during the call only (each rail gets its context's).
 *  When the host's id differs from its own, a module only returns its record, and the
 *  loader refuses the module. NULL: the fabric cannot start; the module has logged the
 *  reason. */
typedef const struct tryst_module *(*tryst_module_fn)(const struct tryst_host *host);

/** Fill in the table of a context (host.c). `config` and `log` must outlive it; a NULL
 *  log is the process default. */
struct config;
struct log;
void module_host_init(struct tryst_host *host, const struct config *config,
                      const struct log *log);

#endif
