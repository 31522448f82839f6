/* SPDX-License-Identifier: Apache-2.0 */
/* A host program with functions of the same names as internal ones of Tryst: the program
 * calls its own, and Tryst works. Prints the library's version. */
#include <stdio.h>
#include <string.h>
#include <tryst/tryst.h>

int log_open(void);
int pool_open(void);

/* Not static: the linker would report a clash. */
int log_open(void)
{
    return 41;
}

int pool_open(void)
{
    return 1;
}

int main(void)
{
    if (strcmp(tryst_status_name(TRYST_OK), "TRYST_OK") != 0 ||
        log_open() + pool_open() != 42)
        return 1;
    if (tryst_version() !=
        (TRYST_VERSION_MAJOR << 16 | TRYST_VERSION_MINOR << 8 | TRYST_VERSION_PATCH))
        return 1;
    printf("%s\n", tryst_version_string());
    return 0;
}
