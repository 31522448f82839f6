/* SPDX-License-Identifier: Apache-2.0 */
/* A host that loads libtryst (argv[1]) with RTLD_LOCAL, as Python does. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library) {
        fprintf(stderr, "dlopen: %s\n",
                argc == 2 ? dlerror() : "usage: dlopen <libtryst>");
        return 1;
    }
    const char *(*status_name)(int);
    *(void **)&status_name = dlsym(library, "tryst_status_name");
    if (!status_name || strcmp(status_name(0), "TRYST_OK") != 0) {
        fprintf(stderr, "tryst_status_name is missing or wrong\n");
        return 1;
    }
    return 0;
}
