/* SPDX-License-Identifier: Apache-2.0 */
/* A host program that lists the transports of libtryst and prints the text of ucx, which
 * is a module. Linked with libtryst, or (-DHOST_DLOPEN) it loads the library argv[1] with
 * RTLD_LOCAL, as Python would. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <tryst/tryst.h>

struct api {
    __typeof__(&tryst_open) open;
    __typeof__(&tryst_transport_visit) visit;
    __typeof__(&tryst_close) close;
    __typeof__(&tryst_last_error) last_error;
};

#ifdef HOST_DLOPEN
static int api_get(struct api *api, const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return -1;
    }
    *(void **)&api->open = dlsym(library, "tryst_open");
    *(void **)&api->visit = dlsym(library, "tryst_transport_visit");
    *(void **)&api->close = dlsym(library, "tryst_close");
    *(void **)&api->last_error = dlsym(library, "tryst_last_error");
    /* If the symbol were global, a module could find it without the table. */
    return api->open && api->visit && api->close && api->last_error &&
                   !dlsym(RTLD_DEFAULT, "tryst_open")
               ? 0
               : -1;
}
#else
static int api_get(struct api *api, const char *path)
{
    (void)path;
    *api = (struct api){tryst_open, tryst_transport_visit, tryst_close, tryst_last_error};
    return 0;
}
#endif

static int show(void *arg, const tryst_transport_info *info)
{
    (void)arg;
    if (strcmp(info->name, "ucx") == 0)
        printf("%s: %s\n", info->available ? "available" : "refused", info->reason);
    return 0;
}

int main(int argc, char **argv)
{
    struct api api;
    tryst_ctx *ctx;
    tryst_open_params params = {.struct_size = sizeof params};
    if (api_get(&api, argc > 1 ? argv[1] : NULL) != 0)
        return 2;
    if (api.open(&params, &ctx) != TRYST_OK) {
        fprintf(stderr, "tryst_open: %s\n", api.last_error());
        return 3;
    }
    api.visit(ctx, show, NULL);
    api.close(ctx);
    return 0;
}
