/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds, loads and checks modules (module_load.h).
 *
 * Idea: a module is foreign code with foreign constructors. Signal dispositions that it
 * changes are restored, and its record is used only if the module and the library were
 * built from the same headers.
 * Invariant: a loaded module stays loaded; the list of loaded modules only grows.
 */
#include "transports/module_load.h"

#include "core/os/fork.h"
#include "transports/memory/memory_ops.h"
#include "transports/signal_guard.h"
#include "transports/transport.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/os/descriptors.h"
#include "core/thread/thread.h"

#ifndef TRYST_MODULE_DIR
#define TRYST_MODULE_DIR ""
#endif

enum { LOADED_MAX = 8, MODULE_NAME_MAX = 32 };

/* Modules of this process. Guarded by load_lock, which is held during a load, so two
 * contexts that open at once load a module once. */
static struct loaded {
    char name[MODULE_NAME_MAX];
    char text[TRANSPORT_TEXT_MAX];
    const struct tryst_module *module;
} loaded[LOADED_MAX];
static int loaded_count;
static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;

/* A load may take seconds, and a fork meanwhile does not copy the loading thread. The
 * child then finds `loading` set and sets `lost`, since no thread can complete the load
 * there. Guarded by load_lock, except in the child's fork handler, which runs alone. */
static bool loading, lost;
static struct fork_handler load_fork;
static bool load_fork_added;

/* One attempt to load. */
struct attempt {
    const struct tryst_host *host;
    const char *name;
    char path[PATH_MAX];
    char *text; /* result or reason, TRANSPORT_TEXT_MAX bytes */
};

static void text_set(struct attempt *attempt, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void text_set(struct attempt *attempt, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(attempt->text, TRANSPORT_TEXT_MAX, fmt, args);
    va_end(args);
}

static tryst_status refusal_log(struct attempt *attempt)
{
    char line[PATH_MAX + TRANSPORT_TEXT_MAX + 32];
    (void)snprintf(line, sizeof line, "module %s refused: %s", attempt->path,
                   attempt->text);
    attempt->host->log(attempt->host, TRYST_LOG_WARN, line);
    return TRYST_E_MODULE;
}

/* Set the attempt's text, log it, and return TRYST_E_MODULE. */
#define refuse(attempt, ...) (text_set(attempt, __VA_ARGS__), refusal_log(attempt))

static bool file_try(struct attempt *attempt, const char *dir, size_t dir_bytes,
                     const char *sub)
{
    int written;
    if (dir_bytes == 0)
        return false;
    written = snprintf(attempt->path, sizeof attempt->path, "%.*s%s/tryst_%s.so",
                       (int)dir_bytes, dir, sub, attempt->name);
    return written > 0 && (size_t)written < sizeof attempt->path &&
           access(attempt->path, R_OK) == 0;
}

/* Try the folders beside the shared library. False also for a static library, which is
 * part of the host's program. */
static bool file_try_beside(struct attempt *attempt)
{
    Dl_info info;
    struct link_map *map = NULL;
    const char *slash;
    if (!dladdr1((const void *)loaded, &info, (void **)&map, RTLD_DL_LINKMAP) || !map ||
        map->l_name[0] == '\0')
        return false;
    slash = strrchr(map->l_name, '/');
    if (!slash)
        return false;
    return file_try(attempt, map->l_name, (size_t)(slash - map->l_name), "/tryst") ||
           file_try(attempt, map->l_name, (size_t)(slash - map->l_name), "");
}

static bool file_try_list(struct attempt *attempt, const char *list)
{
    while (list && *list) {
        size_t bytes = strcspn(list, ":");
        if (file_try(attempt, list, bytes, ""))
            return true;
        list += bytes + (list[bytes] == ':');
    }
    return false;
}

static bool file_find(struct attempt *attempt)
{
    const char *path = attempt->host->config(attempt->host, "module_path");
    bool set = path && *path;
    if (file_try_beside(attempt) || file_try_list(attempt, set ? path : TRYST_MODULE_DIR))
        return true;
    text_set(attempt, "no tryst_%s.so beside the library or in %.90s%s", attempt->name,
             set ? path : TRYST_MODULE_DIR,
             set ? " (TRYST_MODULE_PATH)" : "; set TRYST_MODULE_PATH to its folder");
    return false;
}

/* Find the module's entry. dlsym returns an object pointer, which POSIX lets a program
 * read as a function pointer. */
static tryst_module_fn entry_find(void *handle)
{
    void *symbol = dlsym(handle, TRYST_MODULE_ENTRY);
    tryst_module_fn entry = NULL;
    _Static_assert(sizeof entry == sizeof symbol, "POSIX dlsym");
    memcpy(&entry, &symbol, sizeof entry);
    return entry;
}

static tryst_status module_check(struct attempt *attempt,
                                 const struct tryst_module *module)
{
    if (!module)
        return refuse(attempt, "cannot start: see the module's own log line");
    if (!module->abi_id || strcmp(module->abi_id, attempt->host->abi_id) != 0)
        return refuse(attempt,
                      "built for ABI %s, this library has %s: rebuild both together",
                      module->abi_id ? module->abi_id : "none", attempt->host->abi_id);
    if (strcmp(module->name, attempt->name) != 0)
        return refuse(attempt, "its record names another module: %s", module->name);
    if ((module->ops && module->ops->struct_size != sizeof(struct transport_ops)) ||
        (module->memory && module->memory->struct_size != sizeof(struct memory_ops)))
        return refuse(attempt,
                      "its ops tables have %zu and %zu bytes, which this library does "
                      "not support: rebuild both together",
                      module->ops ? module->ops->struct_size : 0,
                      module->memory ? module->memory->struct_size : 0);
    return TRYST_OK;
}

static tryst_status module_open(struct attempt *attempt,
                                const struct tryst_module **module_p)
{
    struct signal_guard guard;
    const struct tryst_module *module = NULL;
    tryst_module_fn entry = NULL;
    void *handle;

    descriptors_low_hold();
    signal_guard_begin(&guard);
    handle = dlopen(attempt->path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle)
        entry = entry_find(handle);
    if (entry)
        module = entry(attempt->host);
    (void)signal_guard_end(&guard);
    descriptors_low_release();
    thread_exit_watch();

    if (!entry) {
        const char *reason = dlerror();
        return refuse(attempt, "%s", reason ? reason : "no entry " TRYST_MODULE_ENTRY);
    }
    *module_p = module;
    return module_check(attempt, module);
}

static const struct loaded *loaded_find(const char *name)
{
    for (int i = 0; i < loaded_count; i++)
        if (strcmp(loaded[i].name, name) == 0)
            return &loaded[i];
    return NULL;
}

static tryst_status loaded_add(struct attempt *attempt, const struct loaded **loaded_p)
{
    const struct tryst_module *module = NULL;
    struct loaded *entry = &loaded[loaded_count];
    tryst_status status;
    if (strlen(attempt->name) >= MODULE_NAME_MAX) {
        text_set(attempt,
                 "cannot load module '%.40s…': its name has %d characters at most",
                 attempt->name, MODULE_NAME_MAX - 1);
        return TRYST_E_MODULE;
    }
    if (loaded_count == LOADED_MAX) {
        text_set(attempt, "cannot load module %s: a process loads at most %d modules",
                 attempt->name, LOADED_MAX);
        return TRYST_E_MODULE;
    }
    if (!file_find(attempt))
        return TRYST_E_UNSUPPORTED;
    status = module_open(attempt, &module);
    if (status != TRYST_OK)
        return status;
    (void)snprintf(entry->name, sizeof entry->name, "%s", attempt->name);
    (void)snprintf(entry->text, sizeof entry->text, "%s %s, %.100s", module->name,
                   module->version, attempt->path);
    entry->module = module;
    loaded_count++;
    *loaded_p = entry;
    return TRYST_OK;
}

static void load_forked(void *arg)
{
    (void)arg;
    lost = lost || loading;
    loading = false;
    load_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

/* Load a module. Under load_lock. */
static tryst_status load_once(struct attempt *attempt, const struct loaded **loaded_p)
{
    if (lost) {
        text_set(attempt, "cannot load a module: this process was forked during a load; "
                          "start a program (exec) instead");
        return TRYST_E_MODULE;
    }
    if (!load_fork_added) {
        load_fork.child = load_forked;
        load_fork_added = fork_handler_add(&load_fork) == TRYST_OK;
    }
    loading = true;
    tryst_status status = loaded_add(attempt, loaded_p);
    loading = false;
    return status;
}

/* Get the record of a module, loaded now or before. */
static tryst_status module_get(const struct tryst_host *host, const char *name,
                               const struct tryst_module **module_p, char *text)
{
    struct attempt attempt = {.host = host, .name = name, .text = text};
    const struct loaded *found;
    tryst_status status = TRYST_OK;

    pthread_mutex_lock(&load_lock);
    found = loaded_find(name);
    if (!found)
        status = load_once(&attempt, &found);
    pthread_mutex_unlock(&load_lock);
    if (status != TRYST_OK)
        return status;
    (void)snprintf(text, TRANSPORT_TEXT_MAX, "%s", found->text);
    *module_p = found->module;
    return TRYST_OK;
}

tryst_status module_load(const struct tryst_host *host, const char *name,
                         const struct transport_ops **ops_p, char *text)
{
    const struct tryst_module *module;
    tryst_status status = module_get(host, name, &module, text);
    if (status != TRYST_OK)
        return status;
    if (!module->ops) {
        (void)snprintf(text, TRANSPORT_TEXT_MAX, "module %s has no transport", name);
        return TRYST_E_UNSUPPORTED;
    }
    *ops_p = module->ops;
    return TRYST_OK;
}

tryst_status module_load_memory(const struct tryst_host *host, const char *name,
                                const struct memory_ops **memory_p, char *text)
{
    const struct tryst_module *module;
    tryst_status status = module_get(host, name, &module, text);
    if (status != TRYST_OK)
        return status;
    if (!module->memory) {
        (void)snprintf(text, TRANSPORT_TEXT_MAX, "module %s has no kind of memory", name);
        return TRYST_E_UNSUPPORTED;
    }
    *memory_p = module->memory;
    return TRYST_OK;
}

tryst_status module_load_planner(const struct tryst_host *host, const char *name,
                                 const struct planner_ops **planner_p, char *text)
{
    const struct tryst_module *module;
    tryst_status status = module_get(host, name, &module, text);
    if (status != TRYST_OK)
        return status;
    if (!module->planner) {
        (void)snprintf(text, TRANSPORT_TEXT_MAX, "module %s has no planner", name);
        return TRYST_E_UNSUPPORTED;
    }
    *planner_p = module->planner;
    return TRYST_OK;
}

bool module_find(const struct tryst_host *host, const char *name, char *text)
{
    struct attempt attempt = {.host = host, .name = name, .text = text};
    bool found = file_find(&attempt);
    if (found)
        text_set(&attempt, "module %.120s, not loaded", attempt.path);
    return found;
}
