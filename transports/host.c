/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table through which transports reach core (module.h).
 *
 * Idea: one table per context, filled with thin adapters, is all that a transport sees of
 * the library, built in or loaded. So a module links no Tryst library. Invariant: every
 * slot is set.
 */
#include "transports/module.h"

#include "core/config/config.h"
#include "core/log/log.h"
#include "core/memory/alloc.h"
#include "core/os/clock.h"
#include "core/os/descriptors.h"
#include "core/os/poller.h"
#include "core/os/random.h"
#include "transports/memory/memory.h"

#ifndef TRYST_MODULE_ABI_ID
/* In a build without CMake, which accepts only modules of such a build. */
#define TRYST_MODULE_ABI_ID "unknown"
#endif

static void host_log(const struct tryst_host *host, tryst_log_level level,
                     const char *text)
{
    const struct log *log = host->log_arg;
    LOG_AT(log, level, "%s", text);
}

static uint64_t host_now_ns(const struct tryst_host *host)
{
    const struct log *log = host->log_arg;
    return clock_now_ns(log ? log->clock : NULL);
}

static const char *host_config(const struct tryst_host *host, const char *name)
{
    return config_get_string(host->config_arg, name);
}

static uint64_t host_config_number(const struct tryst_host *host, const char *name)
{
    uint64_t value = 0;
    (void)config_get_number(host->config_arg, name, &value);
    return value;
}

/* Get the registration of `mem` with `rail`. A bulk's first use of the region on the rail
 * makes it; memory_release or memory_rail_forget undoes it. NULL: the rail needs none. */
static tryst_status host_mem_handle(struct tryst_mem *mem, struct rail *rail,
                                    void **handle_p)
{
    void *handle = NULL;
    if (rail->index >= MEMORY_RAILS_MAX)
        return TRYST_E_UNSUPPORTED;
    if (mem->registrations[rail->index].rail != rail) {
        tryst_status status = TRYST_OK;
        if (rail->ops->mem_register)
            status = rail->ops->mem_register(rail, mem, &handle);
        if (status != TRYST_OK)
            return status;
        mem->registrations[rail->index].rail = rail;
        mem->registrations[rail->index].handle = handle;
        mem->registrations[rail->index].undo = rail->ops->mem_unregister;
    }
    *handle_p = mem->registrations[rail->index].handle;
    return TRYST_OK;
}

void module_host_init(struct tryst_host *host, const struct config *config,
                      const struct log *log)
{
    *host = (struct tryst_host){
        .abi_version = TRYST_MODULE_ABI_VERSION,
        .abi_id = TRYST_MODULE_ABI_ID,
        .config_arg = config,
        .log_arg = log,
        .alloc = mem_zalloc,
        .alloc_aligned = mem_alloc_aligned,
        .free = mem_free,
        .log = host_log,
        .now_ns = host_now_ns,
        .config = host_config,
        .config_number = host_config_number,
        .poller_add = poller_add,
        .poller_remove = poller_remove,
        .mem_handle = host_mem_handle,
        .random_secret = random_secret,
        .descriptors_left = descriptors_left,
    };
}
