/* SPDX-License-Identifier: Apache-2.0 */
#include "library.h"

#include <dlfcn.h>
#include <string.h>

static void library_open(struct library *library)
{
    void *handle = dlopen(library->file, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        const char *reason = dlerror();
        err_set(&library->why, TRYST_E_UNSUPPORTED, "cannot load %s: %s", library->file,
                reason ? reason : "no reason given");
        return;
    }
    for (const struct library_symbol *symbol = library->symbols; symbol->name; symbol++) {
        void *address = dlsym(handle, symbol->name);
        if (!address) {
            err_set(&library->why, TRYST_E_UNSUPPORTED,
                    "cannot use %s: the function %s is missing; install a newer version",
                    library->file, symbol->name);
            dlclose(handle);
            return;
        }
        memcpy(symbol->address, &address, sizeof address);
    }
}

tryst_status library_need(struct library *library, struct err *err)
{
    pthread_mutex_lock(&library->lock);
    if (!library->tried)
        library_open(library);
    library->tried = true;
    pthread_mutex_unlock(&library->lock);
    if (library->why.status == TRYST_OK)
        return TRYST_OK;
    return err_set(err, library->why.status, "%s", library->why.text);
}
