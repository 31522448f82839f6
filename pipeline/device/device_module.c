/* SPDX-License-Identifier: Apache-2.0 */
/* Loads device stage modules for libtryst_pipeline, as transports/module_load.c does for
 * libtryst.
 *
 * One idea: loading a module runs constructors of foreign code (cuBLAS). So signal
 * dispositions and the thread's signal mask are restored after the load, and the module's
 * record is used only if module and library were built from the same headers. */
#include "device_module.h"
#include "pipeline/base/refuse.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tryst/tryst.h>
#include <unistd.h>

#ifndef TRYST_MODULE_DIR
#define TRYST_MODULE_DIR ""
#endif

enum { SIGNALS = 65 }; /* Linux: 1 to 64 */

/* The only memory kind with a module so far. */
#define MODULE_KIND TRYST_MEMORY_CUDA
#define MODULE_NAME "tryst_stage_cuda"

/* The loaded kernels; NULL: none yet. load_lock guards it, and is held during a load. */
static const struct device_kernels *loaded;
static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- signals ----------------------------------------------------------------------- */

struct signals {
    struct sigaction actions[SIGNALS];
    sigset_t mask;
};

static void signals_keep(struct signals *kept)
{
    sigset_t all;
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &kept->mask);
    for (int number = 1; number < SIGNALS; number++) {
        if (sigaction(number, NULL, &kept->actions[number]) != 0) {
            kept->actions[number].sa_handler = SIG_ERR; /* the C library reserves it */
        }
    }
}

static void signals_restore(const struct signals *kept)
{
    for (int number = 1; number < SIGNALS; number++) {
        struct sigaction now;
        if (kept->actions[number].sa_handler != SIG_ERR &&
            sigaction(number, NULL, &now) == 0 &&
            now.sa_handler != kept->actions[number].sa_handler) {
            (void)sigaction(number, &kept->actions[number], NULL);
        }
    }
    (void)pthread_sigmask(SIG_SETMASK, &kept->mask, NULL);
}

/* ---- finding ----------------------------------------------------------------------- */

static bool file_try(char path[PATH_MAX], const char *folder, size_t folder_bytes,
                     const char *below)
{
    if (folder_bytes == 0) {
        return false;
    }
    int written = snprintf(path, PATH_MAX, "%.*s%s/" MODULE_NAME ".so", (int)folder_bytes,
                           folder, below);
    return written > 0 && written < PATH_MAX && access(path, R_OK) == 0;
}

/* Search tryst/ beside the shared library that contains this code, then the library's own
 * folder. False if this code is part of a program. */
static bool file_try_beside(char path[PATH_MAX])
{
    Dl_info info;
    struct link_map *map = NULL;
    if (!dladdr1((const void *)&loaded, &info, (void **)&map, RTLD_DL_LINKMAP) || !map) {
        return false;
    }
    const char *slash = strrchr(map->l_name, '/');
    if (!slash) {
        return false;
    }
    size_t bytes = (size_t)(slash - map->l_name);
    return file_try(path, map->l_name, bytes, "/tryst") ||
           file_try(path, map->l_name, bytes, "");
}

static bool file_try_list(char path[PATH_MAX], const char *list)
{
    while (list && *list) {
        size_t bytes = strcspn(list, ":");
        if (file_try(path, list, bytes, "")) {
            return true;
        }
        list += bytes + (list[bytes] == ':');
    }
    return false;
}

static bool file_find(char path[PATH_MAX])
{
    const char *list = getenv("TRYST_MODULE_PATH");
    return file_try_beside(path) ||
           file_try_list(path, list && *list ? list : TRYST_MODULE_DIR);
}

/* ---- loading ----------------------------------------------------------------------- */

static const struct tryst_stage_module *module_open(const char *path)
{
    static const struct tryst_stage_host host = {.abi_id = TRYST_STAGE_ABI_ID};
    const struct tryst_stage_module *module = NULL;
    tryst_stage_module_fn entry = NULL;
    struct signals kept;
    signals_keep(&kept);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    void *symbol = handle ? dlsym(handle, TRYST_STAGE_MODULE_ENTRY) : NULL;
    const char *reason = symbol ? NULL : dlerror();
    memcpy(&entry, &symbol, sizeof(entry)); /* POSIX permits this use as a function */
    if (entry) {
        module = entry(&host);
    }
    signals_restore(&kept);
    if (!module) {
        (void)refuse(TRYST_E_MODULE, "cannot load module %s: %s", path,
                     reason ? reason : "it returned no record");
    }
    return module;
}

static tryst_status module_load(void)
{
    char path[PATH_MAX];
    if (!file_find(path)) {
        return refuse(TRYST_E_UNSUPPORTED,
                      "cannot load " MODULE_NAME
                      ": the file is neither beside libtryst_pipeline nor in "
                      "TRYST_MODULE_PATH (" TRYST_MODULE_DIR
                      " where it is empty); build it with CUDA's toolkit");
    }
    const struct tryst_stage_module *module = module_open(path);
    if (!module) {
        return TRYST_E_MODULE;
    }
    if (!module->abi_id || strcmp(module->abi_id, TRYST_STAGE_ABI_ID) != 0) {
        return refuse(TRYST_E_MODULE,
                      "cannot load module %s: built for ABI %s, this library has %s; "
                      "rebuild both together",
                      path, module->abi_id ? module->abi_id : "none", TRYST_STAGE_ABI_ID);
    }
    if (module->kernels->struct_size != sizeof(struct device_kernels) ||
        module->kernels->memory != MODULE_KIND) {
        return refuse(TRYST_E_MODULE,
                      "cannot load module %s: its kernels are for memory kind %d", path,
                      (int)module->kernels->memory);
    }
    loaded = module->kernels;
    return TRYST_OK;
}

tryst_status device_module_kernels(tryst_memory_kind memory,
                                   const struct device_kernels **kernels_p)
{
    tryst_status status = TRYST_OK;
    if (memory != MODULE_KIND) {
        return refuse(TRYST_E_INVALID,
                      "cannot open a stage: no kernels for memory kind %d", (int)memory);
    }
    pthread_mutex_lock(&load_lock);
    if (!loaded) {
        status = module_load();
    }
    if (loaded) {
        *kernels_p = loaded;
    }
    pthread_mutex_unlock(&load_lock);
    return status;
}
