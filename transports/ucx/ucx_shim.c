/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tryst_ucx.so: turns off UCX's memory hooks, then loads the real module,
 * tryst_ucx_fabric.so.
 *
 * Idea: libucs's constructor reads UCX_MEM_* and makes libucm patch mmap, munmap, brk and
 * others in the whole process, before any caller can turn that off. But libucm patches
 * them on its first configuration only, so this file configures libucm first, without
 * hooks. (libucs then configures libucm again, which matters only to users of memory
 * events; this module uses none, see ucx_config.c.)
 * Invariant: if UCX is in the process already, another user owns it, and it is left
 * unchanged.
 */
#include "transports/module.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

static struct tryst_module refused = {
    .abi_id = TRYST_MODULE_ABI_ID, .name = "ucx", .version = "?"};

/* Configure libucm without hooks. ucm_global_config_t of UCX 1.13 to 1.18 begins with the
 * log level and `enable_events`, and grows at its end: zeros mean no events, no hooks and
 * no malloc hooks in all of them. */
static void hooks_quiet(void)
{
    static const struct {
        int log_level, enable_events;
        char rest[1016];
    } quiet = {.log_level = 2 /* UCS_LOG_LEVEL_WARN */, .enable_events = 0, .rest = {0}};
    void (*set_opts)(const void *opts) = NULL;
    void *ucm, *symbol;
    if (dlopen("libucs.so.0", RTLD_LAZY | RTLD_NOLOAD))
        return;
    /* lazily: libucm calls libucs, which is loaded later */
    ucm = dlopen("libucm.so.0", RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
    symbol = ucm ? dlsym(ucm, "ucm_set_global_opts") : NULL;
    memcpy(&set_opts, &symbol, sizeof set_opts);
    if (set_opts)
        set_opts(&quiet);
}

static tryst_module_fn fabric_load(const struct tryst_host *host)
{
    char path[PATH_MAX], line[PATH_MAX + 512];
    Dl_info info;
    const char *slash;
    void *handle, *symbol;
    tryst_module_fn entry = NULL;
    if (!dladdr(&refused, &info) || !(slash = strrchr(info.dli_fname, '/')))
        return NULL;
    (void)snprintf(path, sizeof path, "%.*s/tryst_ucx_fabric.so",
                   (int)(slash - info.dli_fname), info.dli_fname);
    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    symbol = handle ? dlsym(handle, TRYST_MODULE_ENTRY) : NULL;
    memcpy(&entry, &symbol, sizeof entry);
    if (!entry) {
        (void)snprintf(line, sizeof line, "ucx: %s", dlerror());
        host->log(host, TRYST_LOG_WARN, line);
    }
    return entry;
}

const struct tryst_module *tryst_module_v1(const struct tryst_host *host)
    __attribute__((visibility("default")));

const struct tryst_module *tryst_module_v1(const struct tryst_host *host)
{
    tryst_module_fn entry;
    if (strcmp(host->abi_id, refused.abi_id) != 0)
        return &refused;
    hooks_quiet();
    entry = fabric_load(host);
    return entry ? entry(host) : NULL;
}
