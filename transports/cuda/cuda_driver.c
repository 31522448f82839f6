/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the CUDA driver (cuda_driver.h), and converts its results into statuses and error
 * texts of the calling thread.
 *
 * The driver's own threads start with all signals blocked, and signal dispositions that
 * the driver changes are restored. The driver is never closed: its contexts and threads
 * in the process also serve other users.
 */
#include "cuda_driver.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "core/os/fd.h"
#include "transports/signal_guard.h"

struct cuda_driver cuda_driver;

/* ---- errors ---- */

enum { TEXT_MAX = 200 };
static _Thread_local char last[TEXT_MAX];

void cuda_error_write(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(last, sizeof last, format, args);
    va_end(args);
}

const char *cuda_error_text(void)
{
    return last;
}

static tryst_status status_of(CUresult result)
{
    switch (result) {
    case CUDA_SUCCESS: return TRYST_OK;
    case CUDA_ERROR_NOT_READY: return TRYST_IN_PROGRESS;
    case CUDA_ERROR_OUT_OF_MEMORY: return TRYST_E_NOMEM;
    case CUDA_ERROR_NOT_SUPPORTED: return TRYST_E_UNSUPPORTED;
    case CUDA_ERROR_INVALID_VALUE: return TRYST_E_INVALID;
    default: return TRYST_E_SYSTEM;
    }
}

/* Convert a driver's result; the driver's texts are valid even after it has failed. */
tryst_status cuda_status(CUresult result, const char *function)
{
    const char *name = NULL, *text = NULL;
    if (result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY)
        return status_of(result);
    (void)cuda_driver.error_name(result, &name);
    (void)cuda_driver.error_string(result, &text);
    return cuda_error_set(status_of(result), "CUDA driver, %s: %s (%d): %s", function,
                          name ? name : "unknown error", (int)result, text ? text : "");
}

/* ---- opening ---- */

static char driver_file[PATH_MAX];
static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static bool is_open; /* read and written under open_lock */

void cuda_driver_name(const char *file)
{
    (void)snprintf(driver_file, sizeof driver_file, "%s", file);
}

/* The means to resolve functions of one driver. */
struct finder {
    void *library;
    PFN_cuGetProcAddress_v12000 ask; /* cuGetProcAddress; NULL: the driver has none */
};

/* Find a symbol. dlsym returns an object pointer, which POSIX lets a program read as a
 * function pointer. */
static void symbol_get(void *library, const char *name, void *function_p)
{
    void *symbol = dlsym(library, name);
    memcpy(function_p, &symbol, sizeof symbol);
}

static bool function_find(const struct finder *finder, const char *function, int version,
                          const char *ending, void *function_p)
{
    char name[64];
    void *found = NULL;
    CUdriverProcAddressQueryResult how;
    if (finder->ask) {
        if (finder->ask(function, &found, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM,
                        &how) != CUDA_SUCCESS)
            found = NULL;
    } else {
        (void)snprintf(name, sizeof name, "%s%s", function, ending);
        symbol_get(finder->library, name, &found);
    }
    memcpy(function_p, &found, sizeof found);
    return found != NULL;
}

static tryst_status functions_find(const struct finder *finder)
{
#define FIND(member, function, version, ending)                                   \
    if (!function_find(finder, #function, version, ending, &cuda_driver.member))  \
        return cuda_error_set(TRYST_E_UNSUPPORTED,                                \
                              "%.120s has no %s: update the driver", driver_file, \
                              #function);
    CUDA_FUNCTIONS_NEEDED(FIND)
#undef FIND
#define FIND(member, function, version, ending) \
    (void)function_find(finder, #function, version, ending, &cuda_driver.member);
    CUDA_FUNCTIONS_OPTIONAL(FIND)
#undef FIND
    return TRYST_OK;
}

static tryst_status driver_start(void)
{
    struct finder finder = {NULL, NULL};
    finder.library = dlopen(driver_file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!finder.library) {
        const char *reason = dlerror();
        return cuda_error_set(TRYST_E_UNSUPPORTED, "no CUDA driver: %s",
                              reason ? reason : driver_file);
    }
    symbol_get(finder.library, "cuGetProcAddress_v2", &finder.ask);
    tryst_status status = functions_find(&finder);
    /* no device, or a device that does not answer */
    if (status == TRYST_OK && CUDA_CALL(init, 0) != TRYST_OK)
        status = TRYST_E_UNSUPPORTED;
    return status;
}

tryst_status cuda_driver_open(void)
{
    struct signal_guard guard;
    tryst_status status = TRYST_OK;
    pthread_mutex_lock(&open_lock);
    if (!is_open) {
        /* the driver keeps descriptors of its devices open */
        unsigned held = fd_low_hold();
        signal_guard_begin(&guard);
        status = driver_start();
        (void)signal_guard_end(&guard);
        fd_low_release(held);
        is_open = status == TRYST_OK;
    }
    pthread_mutex_unlock(&open_lock);
    return status;
}
